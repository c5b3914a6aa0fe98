"""Seconds from a config to its first update, in this process: `... _train_start NAME SIZE`."""

import sys
import time

from zsrl_jax.commands.bench._train_cases import build
from zsrl_jax.devices import compile_cache


def main(name: str, size: str) -> None:
    """Print the seconds; compiled programs are in the folder JAX_COMPILATION_CACHE_DIR."""
    compile_cache.keep()
    case = build(name, size)
    begin = time.perf_counter()
    case.program(1, 1)()
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main(*sys.argv[1:])
