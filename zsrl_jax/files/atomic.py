"""Files and folders that appear whole or not at all, and last through a loss of power.

What is being written has the suffix PART and is never read. A finished folder takes its name by a
rename. Where another stood there, that one has the suffix OLD until the new one is in.
"""

import os
import shutil
from pathlib import Path

from zsrl_jax.errors import DiskError

PART = ".part"  # of what is being written, or being deleted: never read
OLD = ".old"  # of what is being replaced


def part_of(place: Path) -> Path:
    """Return where to write what shall appear at a place."""
    return place.with_name(place.name + PART)


def sync(place: Path) -> None:
    """Make a file, or the names in a folder, last through a loss of power."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(file: Path, text: str) -> None:
    """Write a file that appears whole or not at all, and lasts."""
    part = part_of(file)
    try:
        with part.open("w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, file)
        sync(file.parent)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise DiskError(f"cannot write '{file}': {reason}") from error


def move_in(part: Path, folder: Path) -> None:
    """Give a finished folder its name; where another has it, that one goes once this one is in."""
    old = folder.with_name(folder.name + OLD)
    discard(old)
    if os.path.lexists(folder):
        os.replace(folder, old)
    os.replace(part, folder)
    sync(folder.parent)
    discard(old)


def take_back(folder: Path, proof: str) -> None:
    """Take back the old folder where `move_in` was cut off between its two renames.

    `proof` names a file that every whole folder of this kind has.
    """
    old = folder.with_name(folder.name + OLD)
    if not folder.exists() and (old / proof).exists():
        os.replace(old, folder)


def discard(place: Path) -> None:
    """Delete a folder, a file or a link, if there is one; what a link points to stays."""
    if place.is_symlink() or not place.is_dir():
        place.unlink(missing_ok=True)
        return
    if not place.name.endswith(PART):  # a deletion cut short must not look like a damaged folder
        gone = part_of(place)
        shutil.rmtree(gone, ignore_errors=True)
        place = place.rename(gone)
    shutil.rmtree(place, ignore_errors=True)
