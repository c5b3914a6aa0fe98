"""Read npz archives that anyone may have made: whole or not at all, and never a pickle.

A file is read once and each member inflated in one call outside the interpreter's lock, so threads
read files side by side. Nothing is ever extracted: members are found by their key, so a name with
`..` or a symbolic link in an archive leads nowhere. The checksum of every member is compared.
"""

import functools
import io
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO

import numpy as np

from zsrl_jax.errors import DamageError

DEFLATE_RATIO = 1032  # no deflated byte holds more: a member that claims more is a trap
UNREADABLE = (
    ValueError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    struct.error,
)  # what zipfile raises
MANY = 0xFFFF  # members, from which on the end of an archive does not count them
HEAD = 4096  # bytes in which the header of an array ends


def looks_like(data: bytes) -> str:
    """Say what a file is that begins with these bytes."""
    if not data:
        return "an empty file"
    start = data.lstrip()[:16].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "an HTML page"
    if data.startswith(b"\x89HDF"):
        return "an HDF5 file"
    if data.startswith(b"\x80") and len(data) > 1 and data[1] <= 5:
        return "a pickle, which is never loaded"
    return "a zip archive" if data.startswith(b"PK") else f"a file that begins with {data[:8]!r}"


def read_bytes(path: Path, most: int = -1) -> bytes:
    """Read a file, or the first `most` bytes of it."""
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:  # a folder, a link to nowhere, a file of somebody else
        found = f"{error.strerror or error}"
        raise DamageError(path, None, "a file that can be read", found) from error


def members(path: Path, data: bytes | None = None) -> dict[str, zipfile.ZipInfo]:
    """List the arrays of an archive by key."""
    start = read_bytes(path, 64)
    if not start.startswith(b"PK"):
        raise DamageError(path, None, "an npz archive", looks_like(start))
    try:
        with zipfile.ZipFile(path if data is None else io.BytesIO(data)) as archive:
            found = archive.infolist()
        with io.BytesIO(data) if data is not None else path.open("rb") as file:
            count = _count(file)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
        raise DamageError(path, None, "a whole npz archive", f"one cut off ({error})") from error
    if count not in (len(found), MANY):  # zipfile passes over entries that a flipped bit hides
        raise DamageError(path, None, f"{count} arrays", f"{len(found)}")
    return {info.filename.removesuffix(".npy"): info for info in found}


def _count(file: BinaryIO) -> int:
    """Return how many members the end of an archive says there are."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - MANY - 22))
    tail = file.read()
    place = tail.rfind(b"PK\5\6")
    return struct.unpack("<H", tail[place + 10 : place + 12])[0]


def read(path: Path, keys: Iterable[str], optional: Iterable[str] = ()) -> dict[str, np.ndarray]:
    """Read the arrays of these keys, those of `optional` where they are there."""
    data = read_bytes(path)
    found = members(path, data)
    keys = list(keys)
    for key in keys:
        if key not in found:
            names = ", ".join(sorted(found)) or "nothing"
            raise DamageError(path, key, f"the keys {', '.join(keys)}", f"only {names}")
    wanted = [*keys, *(key for key in optional if key in found)]
    for key in found.keys() - set(wanted):  # nobody reads them, but a planted pickle is refused
        _header(path, key, _inflate(path, key, data, found[key], HEAD))
    return {key: _array(path, key, _inflate(path, key, data, found[key])) for key in wanted}


def refuse_pickles(path: Path, found: Mapping[str, zipfile.ZipInfo]) -> None:
    """Read the header of every member of a large archive: one that needs a pickle is refused."""
    for key, info in found.items():
        try:
            with zipfile.ZipFile(path) as archive, archive.open(info) as member:
                head = member.read(HEAD)
        except (zipfile.BadZipFile, zlib.error, OSError, *UNREADABLE) as error:
            raise DamageError(path, key, "a whole array", f"damage ({error})") from error
        _header(path, key, head)


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


def _inflate(
    path: Path, key: str, data: bytes, info: zipfile.ZipInfo, most: int | None = None
) -> bytes:
    """Return a member's bytes, checked, or its first `most` bytes."""
    size, packed = info.file_size, info.compress_size
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
        raise DamageError(path, key, "a stored or deflated array", "another compression")
    if size > DEFLATE_RATIO * packed + HEAD:
        raise DamageError(path, key, f"at most {DEFLATE_RATIO} bytes a byte", f"{size} of {packed}")
    here = info.header_offset
    name, extra = struct.unpack("<HH", data[here + 26 : here + 30].ljust(4, b"\0"))
    begin = here + 30 + name + extra
    raw: bytes | memoryview = memoryview(data)[begin : begin + packed]
    if info.compress_type == zipfile.ZIP_DEFLATED:
        try:
            raw = zlib.decompressobj(-15).decompress(raw, most or max(size, 1))
        except zlib.error as error:
            raise DamageError(path, key, "a whole array", f"damage ({error})") from error
    if most is None and (len(raw) != size or zlib.crc32(raw) != info.CRC):
        raise DamageError(
            path, key, f"{size} bytes with checksum {info.CRC:08x}",
            f"{len(raw)} with {zlib.crc32(raw):08x}",
        )  # fmt: skip
    return bytes(raw)


@functools.lru_cache(maxsize=64)
def _parse(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    file = io.BytesIO(head)
    major, _ = np.lib.format.read_magic(file)
    reader = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    shape, fortran, dtype = reader[major](file)
    return shape, fortran, dtype, file.tell()


def _header(path: Path, key: str, raw: bytes) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Return shape, order, type and offset of an array, refusing what only a pickle can hold."""
    try:
        end = 10 + struct.unpack("<H", raw[8:10])[0] if raw[6:7] == b"\x01" else HEAD
        shape, fortran, dtype, offset = _parse(raw[:end])
    except (ValueError, KeyError, TypeError, SyntaxError, TokenError, struct.error) as error:
        raise DamageError(path, key, "a numpy array", looks_like(raw[:64])) from error
    if dtype.hasobject:
        raise DamageError(path, key, "numbers", "an object array: a pickle, which is never loaded")
    return shape, fortran, dtype, offset


def _array(path: Path, key: str, raw: bytes) -> np.ndarray:
    shape, fortran, dtype, offset = _header(path, key, raw)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if len(raw) - offset != size:
        raise DamageError(path, key, f"{size} bytes for shape {shape}", f"{len(raw) - offset}")
    return np.frombuffer(raw, dtype, offset=offset).reshape(shape, order="F" if fortran else "C")
