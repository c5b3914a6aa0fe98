"""One process at a time per folder: a kernel lock on the file `.lock` inside it.

The lock ends with the process that holds it, however that process ends: a file left behind locks
nothing. On NFS the lock holds between machines where the mount supports it (the default of Linux).
Where a file system has no locks at all, a line says so and the run goes on without one.
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
from zsrl_jax.files.atomic import discard

FILE = ".lock"


@contextlib.contextmanager
def held(folder: str | os.PathLike) -> Iterator[None]:
    """Lock a folder (created if missing) while the block runs, or raise the name of its holder."""
    folder = Path(folder).absolute()
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / FILE).open("a+")
    except OSError as error:
        raise DiskError(f"cannot write into '{folder}': {os.strerror(error.errno or 0)}") from error
    try:
        with file:
            _take(file, folder)
            yield
    finally:
        if is_new and [entry.name for entry in folder.iterdir()] == [FILE]:
            discard(folder)  # nothing came of it


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


@contextlib.contextmanager
def turn(part: Path, folder: Path) -> Iterator[bool]:
    """Lock an unfinished folder; yield false if another process finished it while we waited.

    The folder itself is locked, so no lock file is left behind. A process that waited finds it
    renamed to the finished store, or gone because the source was damaged.
    """
    while True:
        part.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_same(descriptor, part) or _is_same(descriptor, folder):
                yield _is_same(descriptor, part)
                return
        finally:
            os.close(descriptor)


def _is_same(descriptor: int, folder: Path) -> bool:
    return folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat())
