"""Train a run and score it: python -m experiments.run --config=configs/cheetah_fb_btd.py

The same as `zsrl run`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("run")
