"""A failed save reports once, by its exception: what Orbax's threads also print is suppressed."""

import contextlib
import logging
import sys
import threading
import time
import warnings
from collections.abc import Iterator

from absl import logging as absl_logging

_tasks_log = logging.getLogger("asyncio")


@contextlib.contextmanager
def one_report() -> Iterator[None]:
    """Let a failed save report once, by its exception.

    Orbax logs a full disk from several threads and leaves some of them running: this waits for
    them. After a failed save the filter stays on, because TensorStore's leftover tasks may still
    print.
    """
    level, hook, tasks = absl_logging.get_verbosity(), sys.unraisablehook, _tasks_log.level
    others, filters = set(threading.enumerate()), warnings.catch_warnings()

    def skip_closed_loop(lost):
        if "Event loop is closed" not in str(lost.exc_value):
            hook(lost)

    absl_logging.set_verbosity(absl_logging.FATAL)
    _tasks_log.setLevel(logging.CRITICAL)
    sys.unraisablehook = skip_closed_loop
    filters.__enter__()
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    try:
        yield
        filters.__exit__(None, None, None)
        sys.unraisablehook = hook
        _tasks_log.setLevel(tasks)
    except BaseException:
        _outlast(others)
        raise
    finally:
        absl_logging.set_verbosity(level)


def _outlast(others: set[threading.Thread], seconds: float = 5.0) -> None:
    """Wait for the threads that the save started, so that none prints or writes later.

    Orbax's writers have a class of their own, whose join raises the error they ended with. Plain
    threads belong to its pools, which are idle.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        new = set(threading.enumerate()) - others
        if all(type(thread) is threading.Thread for thread in new):
            return
        time.sleep(0.01)
