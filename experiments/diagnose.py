"""Look at the training of runs: python -m experiments.diagnose RUN [RUN ...]

The same as `zsrl diagnose`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("diagnose")
