"""Start a command so that bad input is one clear line and exit code 2, never a traceback."""

import sys
from collections.abc import Callable

from absl import app, flags, logging

from zsrl_jax.errors import ZsrlError


def run(main: Callable) -> None:
    """Parse flags and run main(argv)."""
    logging.set_verbosity(logging.WARNING)  # checkpoints are chatty
    try:
        app.run(main, flags_parser=_parse)
    except ZsrlError as error:
        sys.exit(_fail(error))


def _parse(argv):
    try:
        return flags.FLAGS(argv)
    except (flags.Error, AttributeError, KeyError, ZsrlError, OSError, TypeError, ValueError) as error:
        sys.exit(_fail(error))


def _fail(error: BaseException) -> int:
    text = " ".join(str(error.args[0] if error.args else error).split())
    print(f"error: {text}", file=sys.stderr)
    return 2
