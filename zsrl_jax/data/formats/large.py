"""Npz archives too large for memory, member by member: of the 64-bit kind too, by zipfile."""

import io
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from zsrl_jax.data.formats import npz
from zsrl_jax.errors import DamageError

UNREADABLE = (  # what zipfile raises: NotImplementedError for a compression it does not know
    ValueError, EOFError, NotImplementedError, RuntimeError, struct.error,
)  # fmt: skip


def members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """List the arrays of a large archive by key."""
    start = npz.read_bytes(path, 64)
    if not start.startswith(b"PK"):
        raise DamageError(path, None, "an npz archive", npz.looks_like(start))
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            found = archive.infolist()
            size = file.seek(0, io.SEEK_END)
            file.seek(max(0, size - npz.MANY - 22))
            tail = file.read()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
        raise DamageError(path, None, "a whole npz archive", f"one cut off ({error})") from error
    count = struct.unpack_from("<H", tail, tail.rfind(npz.END) + 10)[0]
    if count not in (len(found), npz.MANY):  # zipfile passes over entries that a flipped bit hides
        raise DamageError(path, None, f"{count} arrays", f"{len(found)}")
    keys = [info.filename.removesuffix(".npy") for info in found]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DamageError(path, twice, "each key once", "a second array of that name")
    return dict(zip(keys, found, strict=True))


def read_small(path: Path, key: str, info: zipfile.ZipInfo) -> np.ndarray:
    """Read one small array of a large archive."""
    return npz.array(path, key, _head(path, key, info))


def refuse_pickles(path: Path, found: Mapping[str, zipfile.ZipInfo]) -> None:
    """Read the header of every member of a large archive: one that needs a pickle is refused."""
    for key, info in found.items():
        npz.header(path, key, _head(path, key, info))


def _head(path: Path, key: str, info: zipfile.ZipInfo) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(info) as member:
            return member.read(npz.HEAD)
    except (zipfile.BadZipFile, zlib.error, OSError, *UNREADABLE) as error:
        raise DamageError(path, key, "a whole array", f"damage ({error})") from error


def unpack(path: Path, keys: Iterable[str], folder: Path) -> dict[str, np.ndarray]:
    """Write members of a large archive to files of our own naming, and map them into memory."""
    arrays, found = {}, members(path)
    folder.mkdir(exist_ok=True)
    for i, key in enumerate(key for key in keys if key in found):
        target = folder / f"{i}.npy"
        try:
            with (
                zipfile.ZipFile(path) as archive,
                archive.open(found[key]) as member,
                target.open("wb") as out,
            ):
                shutil.copyfileobj(member, out, 1 << 22)
            arrays[key] = np.load(target, mmap_mode="r", allow_pickle=False).view(np.ndarray)
        except (zipfile.BadZipFile, zlib.error, *UNREADABLE) as error:
            raise DamageError(path, key, "a whole array", f"damage ({error})") from error
    return arrays
