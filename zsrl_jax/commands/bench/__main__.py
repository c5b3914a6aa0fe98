"""`python -m experiments.bench NAME [args]`: run one benchmark of this package."""

import importlib
import pkgutil
import sys
from collections.abc import Sequence

from zsrl_jax.commands import bench
from zsrl_jax.errors import ZsrlError, unknown


def main(argv: Sequence[str]) -> int:
    """Call the benchmark that the first argument names with the rest; return the exit code."""
    known = [m.name for m in pkgutil.iter_modules(bench.__path__) if not m.name.startswith("_")]
    if not argv or argv[0] not in known:
        name = argv[0] if argv else ""
        print(unknown("benchmark", name, known), file=sys.stderr)
        return 2
    try:
        importlib.import_module(f"zsrl_jax.commands.bench.{argv[0]}").main(argv[1:])
    except ZsrlError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
