"""Train the explorers that ship: python -m experiments.explorers --domain=walker

The same as `zsrl explorers`; what it does is in zsrl_jax/commands.
"""

from zsrl_jax.commands import start

if __name__ == "__main__":
    start("explorers")
