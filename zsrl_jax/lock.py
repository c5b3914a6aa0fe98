"""One process for each folder: a lock of the kernel on a file `.lock` inside.

It ends with the process that holds it, however that dies, so a lock left behind is no lock. On NFS
the lock holds between machines where the mount supports it (the default of Linux); where a file
system has no locks at all, a line says so and the run goes on without.
"""

import contextlib
import errno
import fcntl
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from zsrl_jax.errors import DiskError, LockedError

FILE = ".lock"
_held: set[Path] = set()


@contextlib.contextmanager
def held(folder: str | os.PathLike) -> Iterator[None]:
    """Hold a folder (made if need be) while the block runs, or say who does."""
    folder = Path(folder).absolute()
    if folder in _held:  # a function of ours that already holds it called another
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / FILE).open("a+")
    except OSError as error:
        raise DiskError(f"cannot write into '{folder}': {os.strerror(error.errno or 0)}") from error
    with file:
        _take(file, folder)
        _held.add(folder)
        try:
            yield
        finally:
            _held.discard(folder)


def _take(file, folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        who = file.read().strip() or "another process"
        raise LockedError(
            f"'{folder}' is in use by {who}: wait until it ends, or name another folder"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        print(f"lock: the file system of '{folder}' has no locks: start no second run there",
              file=sys.stderr)  # fmt: skip
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
