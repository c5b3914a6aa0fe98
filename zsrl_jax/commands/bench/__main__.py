"""`python -m experiments.bench NAME [args]`: run one benchmark of this package."""

import importlib
import pkgutil
import sys
from collections.abc import Sequence

from zsrl_jax.commands import bench, usage_of
from zsrl_jax.errors import ZsrlError, unknown


def main(argv: Sequence[str]) -> int:
    """Call the benchmark that the first argument names with the rest; return the exit code."""
    known = [m.name for m in pkgutil.iter_modules(bench.__path__) if not m.name.startswith("_")]
    if argv and argv[0] in ("-h", "--help", "help"):
        print(usage(known))
        return 0
    if not argv or argv[0] not in known:
        name = argv[0] if argv else ""
        told = unknown("benchmark", name, known) if name else f"no benchmark: {', '.join(known)}"
        print(f"error: {told}", file=sys.stderr)
        return 2
    try:
        importlib.import_module(f"zsrl_jax.commands.bench.{argv[0]}").main(argv[1:])
    except ZsrlError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def usage(known: Sequence[str]) -> str:
    """Return the benchmarks, each with the first line of its docstring."""
    rows = []
    for name in known:
        module = importlib.import_module(f"zsrl_jax.commands.bench.{name}")
        rows.append(f"  {name:<8}{(module.__doc__ or '').strip().splitlines()[0]}")
    head = f"{usage_of('bench', 'NAME [flags]')}: measure a part of zsrl_jax"
    return "\n".join([head, "", *rows, "", "NAME --help lists its flags."])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
