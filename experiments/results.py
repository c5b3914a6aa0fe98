"""Keep studies as small files and make their page: python -m experiments.results

The same as `zsrl results`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("results")
