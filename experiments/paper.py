"""Run a study of the paper: python -m experiments.paper NAME

The same as `zsrl paper`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("paper")
