"""Look at datasets, or convert them: python -m experiments.data inspect PATH

The same as `zsrl data`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("data")
