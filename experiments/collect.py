"""Collect reward-free data: python -m experiments.collect --domain=cheetah --episodes=500

The same as `zsrl collect`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("collect")
