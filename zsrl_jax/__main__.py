"""python -m zsrl_jax COMMAND: the same as the console script `zsrl`."""

from zsrl_jax.commands import main

if __name__ == "__main__":
    main()
