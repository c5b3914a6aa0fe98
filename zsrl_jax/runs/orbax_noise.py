"""A save that fails speaks once: what Orbax's threads print besides is hushed or waited for."""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator

from absl import logging as absl_logging

_tasks_log = logging.getLogger("asyncio")


@contextlib.contextmanager
def one_voice() -> Iterator[None]:
    """Let a save that fails speak once, by its exception.

    Orbax logs a full disk from several threads, and leaves the others under way behind: those are
    waited for. What TensorStore still does then prints, whenever it ends, that nobody waits for it:
    so after a failure what hushes that stays.
    """
    level, hook, tasks = absl_logging.get_verbosity(), sys.unraisablehook, _tasks_log.level
    others = set(threading.enumerate())

    def hushed(lost):
        if "Event loop is closed" not in str(lost.exc_value):
            hook(lost)

    absl_logging.set_verbosity(absl_logging.FATAL)
    _tasks_log.setLevel(logging.CRITICAL)
    sys.unraisablehook = hushed
    try:
        yield
        sys.unraisablehook = hook
        _tasks_log.setLevel(tasks)
    except BaseException:
        _outlast(others)
        raise
    finally:
        absl_logging.set_verbosity(level)


def _outlast(others: set[threading.Thread], seconds: float = 5.0) -> None:
    """Wait for the writers that were not there before, so that none speaks or writes later on.

    Orbax's writers are of a class of their own, whose join raises what they died of; plain threads
    are those of its pools, which idle.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        new = set(threading.enumerate()) - others
        if all(type(thread) is threading.Thread for thread in new):
            return
        time.sleep(0.01)
