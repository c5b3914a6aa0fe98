"""Make a page of an agent: python -m experiments.page runs/cheetah_fb_btd --open

The same as `zsrl page`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("page")
