"""Check the machine and what runs left behind: python -m experiments.doctor [FOLDER ...]

The same as `zsrl doctor`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("doctor")
