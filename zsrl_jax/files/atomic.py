"""Files and folders that appear whole or not at all, and survive a loss of power.

What is being written has the suffix PART and is never read. A finished folder gets its name by a
rename. A folder that it replaces has the suffix OLD until the rename is done.
"""

import os
import shutil
from pathlib import Path

from zsrl_jax.errors import DiskError

PART = ".part"  # suffix of what is being written or deleted: never read
OLD = ".old"  # suffix of what is being replaced


def refuse_unwritable(*places: Path) -> None:
    """Refuse files and folders that exist and that this user may not write."""
    for place in places:
        if place.exists() and not os.access(place, os.W_OK):
            raise DiskError(
                f"cannot write into '{place}': permission denied; name another folder, or change "
                "its permissions"
            )


def part_of(place: Path) -> Path:
    """Return the path to write to before the rename to `place`."""
    return place.with_name(place.name + PART)


def sync(place: Path) -> None:
    """Make a file, or the names in a folder, survive a loss of power."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(file: Path, text: str) -> None:
    """Do as `write_bytes`, with text as UTF-8."""
    write_bytes(file, text.encode())


def write_bytes(file: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all, and survives a loss of power."""
    part = part_of(file)
    try:
        with part.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, file)
        sync(file.parent)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise DiskError(f"cannot write '{file}': {reason}") from error


def move_in(part: Path, folder: Path) -> None:
    """Rename a finished folder to its name; a folder already there is deleted afterwards."""
    old = folder.with_name(folder.name + OLD)
    discard(old)
    if os.path.lexists(folder):
        os.replace(folder, old)
    os.replace(part, folder)
    sync(folder.parent)
    discard(old)


def take_back(folder: Path, proof: str) -> None:
    """Restore the old folder if `move_in` was cut off between its two renames.

    `proof` names a file that every whole folder of this kind has.
    """
    old = folder.with_name(folder.name + OLD)
    if not folder.exists() and (old / proof).exists():
        os.replace(old, folder)


def discard(place: Path) -> None:
    """Delete a folder, a file or a link, if it exists; what a link points to stays."""
    if place.is_symlink() or not place.is_dir():
        place.unlink(missing_ok=True)
        return
    if not place.name.endswith(PART):  # a deletion cut short must not look like a damaged folder
        gone = part_of(place)
        shutil.rmtree(gone, ignore_errors=True)
        place = place.rename(gone)
    shutil.rmtree(place, ignore_errors=True)
