"""Seconds from a config to its first update, in this process: `... _train_start NAME SIZE`."""

import sys
import time

from experiments.bench._train_cases import build
from zsrl_jax import programs


def main(name: str, size: str) -> None:
    """Print the seconds; programs are kept and found where JAX_COMPILATION_CACHE_DIR says."""
    programs.keep()
    case = build(name, size)
    begin = time.perf_counter()
    case.program(1, 1)()
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main(*sys.argv[1:])
