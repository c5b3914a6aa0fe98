"""Pack finished runs as agents that ship: python -m experiments.agents runs/cheetah_fb_btd

The same as `zsrl agents`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("agents")
