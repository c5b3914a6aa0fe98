"""Film a finished run: python -m experiments.video runs/cheetah_fb_btd --task=run

The same as `zsrl video`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("video")
