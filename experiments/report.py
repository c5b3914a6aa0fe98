"""Make one page of runs and studies: python -m experiments.report FOLDER

The same as `zsrl report`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("report")
