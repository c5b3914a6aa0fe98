"""Measure the parts: python -m experiments.bench NAME

The same as `zsrl bench`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("bench")
