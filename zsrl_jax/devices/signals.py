"""SIGTERM, SIGINT and SIGUSR1 (SLURM's warning) mean: save at the next chunk, then leave.

The handler only notes the signal; the work checks the note where stopping is safe. A second signal
changes nothing, so it cannot interrupt a save. (SIGKILL can; but a save appears whole or not at
all.)
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

CAUGHT = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_noted: list[int] = []
_active: list[bool] = []


class Stopped(KeyboardInterrupt):
    """A signal asked to stop, and all that should be kept is on disk."""


@contextlib.contextmanager
def caught() -> Iterator[None]:
    """Note signals inside the block; outside of the main thread this does nothing."""
    if _active or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _note) for number in CAUGHT}
    _active.append(True)
    try:
        yield
    finally:
        _active.clear()
        _noted.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_at_once() -> None:
    """Let SIGTERM and SIGUSR1 end a command as Ctrl-C does, outside of `caught`."""
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, _leave)


def noted() -> int:
    """Return the first signal that has come, or 0."""
    return _noted[0] if _noted else 0


def check() -> None:
    """Raise Stopped if a signal has come; a thread beside the main one goes on to its end."""
    if (number := noted()) and threading.current_thread() is threading.main_thread():
        raise Stopped(signal.Signals(number).name)


def _leave(number: int, _frame: object) -> None:
    raise Stopped(signal.Signals(number).name)


def _note(number: int, _frame: object) -> None:
    first = not _noted
    _noted.append(number)
    if first:
        name = signal.Signals(number).name
        sys.stderr.write(f"\n{name}: stopping at the next chunk\n")
