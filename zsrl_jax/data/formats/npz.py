"""Read npz archives from untrusted sources: whole or not at all, and never a pickle.

Small archives (`read`) are read at once, and each member is inflated in one call that releases the
interpreter's lock, so threads read files in parallel. Archives too large for memory (`unpack`) are
written member by member to files, which are memory-mapped. Members are found by their key and no
name in an archive becomes a path, so `..` or a symbolic link has no effect. The checksum of every
member is compared.
"""

import functools
import io
import math
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
MANY = 0xFFFF  # members: with so many or more, the archive's end record does not count them
HEAD = 4096  # bytes that hold the header of an array
END = b"PK\5\6"  # marks an archive's end record: how many members, and where their list is
UNREADABLE = (  # what zipfile raises: NotImplementedError for a compression it does not know
    ValueError, EOFError, NotImplementedError, RuntimeError, struct.error,
)  # fmt: skip
Buffer = bytes | memoryview


def looks_like(data: bytes) -> str:
    """Describe a file that begins with these bytes."""
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
    except OSError as error:  # a folder, a broken link, or no permission
        found = f"{error.strerror or error}"
        raise DamageError(path, None, "a file that can be read", found) from error


def members(path: Path, file: BinaryIO) -> dict[str, zipfile.ZipInfo]:
    """List the arrays of an open archive by key, from the list at its end."""
    start = file.read(64)
    if not start.startswith(b"PK"):
        raise DamageError(path, None, "an npz archive", looks_like(start))
    try:
        with zipfile.ZipFile(file) as archive:
            found = archive.infolist()
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - MANY - 22))
        tail = file.read()
    except (zipfile.BadZipFile, OSError, *UNREADABLE) as error:
        raise DamageError(path, None, "a whole npz archive", f"one cut off ({error})") from error
    count = struct.unpack_from("<H", tail, tail.rfind(END) + 10)[0]
    if count not in (len(found), MANY):  # zipfile ignores entries that a flipped bit hides
        raise DamageError(path, None, f"{count} arrays", f"{len(found)}")
    keys = [info.filename.removesuffix(".npy") for info in found]
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DamageError(path, twice, "each key once", "a second array of that name")
    return dict(zip(keys, found, strict=True))


def read(path: Path, keys: Iterable[str], optional: Iterable[str] = ()) -> dict[str, np.ndarray]:
    """Read the arrays of `keys`, and those of `optional` that exist."""
    data = read_bytes(path)
    found = members(path, io.BytesIO(data))
    keys = list(keys)
    for key in keys:
        if key not in found:
            names = ", ".join(sorted(found)) or "nothing"
            raise DamageError(path, key, f"the keys {', '.join(keys)}", f"only {names}")
    wanted = [*keys, *(key for key in optional if key in found)]
    for key in found.keys() - set(wanted):  # not used, but a pickle among them is refused
        header(path, key, _inflate(path, key, data, found[key], HEAD))
    return {key: array(path, key, _inflate(path, key, data, found[key])) for key in wanted}


def _inflate(
    path: Path, key: str, data: bytes, member: zipfile.ZipInfo, most: int | None = None
) -> Buffer:
    """Return a member's bytes, checked, or its first `most` bytes."""
    size, packed, encrypted = member.file_size, member.compress_size, member.flag_bits & 1
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or encrypted:
        found = "an encrypted one" if encrypted else "another compression"
        raise DamageError(path, key, "a stored or deflated array", found)
    if size > DEFLATE_RATIO * packed + HEAD:
        raise DamageError(
            path, key, f"at most {DEFLATE_RATIO} bytes per byte", f"{size} of {packed}"
        )
    here = member.header_offset
    name, extra = struct.unpack("<HH", data[here + 26 : here + 30].ljust(4, b"\0"))
    begin = here + 30 + name + extra
    raw: Buffer = memoryview(data)[begin : begin + packed]
    if member.compress_type == zipfile.ZIP_DEFLATED:
        try:
            raw = zlib.decompressobj(-15).decompress(raw, most or max(size, 1))
        except zlib.error as error:
            raise DamageError(path, key, "a whole array", f"damage ({error})") from error
    if most is None and (len(raw) != size or zlib.crc32(raw) != member.CRC):
        raise DamageError(
            path, key, f"{size} bytes with checksum {member.CRC:08x}",
            f"{len(raw)} with {zlib.crc32(raw):08x}",
        )  # fmt: skip
    return raw


@functools.lru_cache(maxsize=64)
def _parse(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    file = io.BytesIO(head)
    major, _ = np.lib.format.read_magic(file)
    reader = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    shape, fortran, dtype = reader[major](file)
    return shape, fortran, dtype, file.tell()


def header(path: Path, key: str, raw: Buffer) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Return shape, order, type and offset of an array; refuse one that needs a pickle."""
    try:
        end = 10 + struct.unpack("<H", raw[8:10])[0] if raw[6:7] == b"\x01" else HEAD
        shape, fortran, dtype, offset = _parse(bytes(raw[:end]))
    except (ValueError, KeyError, TypeError, SyntaxError, TokenError, struct.error) as error:
        raise DamageError(path, key, "a numpy array", looks_like(bytes(raw[:64]))) from error
    if dtype.hasobject:
        raise DamageError(path, key, "numbers", "an object array: a pickle, which is never loaded")
    return shape, fortran, dtype, offset


def array(path: Path, key: str, raw: Buffer) -> np.ndarray:
    """Return a member's bytes as an array."""
    shape, fortran, dtype, offset = header(path, key, raw)
    size = math.prod(shape) * dtype.itemsize
    if len(raw) - offset != size:
        raise DamageError(path, key, f"{size} bytes for shape {shape}", f"{len(raw) - offset}")
    return np.frombuffer(raw, dtype, offset=offset).reshape(shape, order="F" if fortran else "C")


def large_members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """List the arrays of a large archive by key, without reading it into memory."""
    read_bytes(path, 1)  # raises a clear error if it cannot be opened
    with path.open("rb") as file:
        return members(path, file)


def read_small(path: Path, key: str, info: zipfile.ZipInfo) -> np.ndarray:
    """Read one small array of a large archive."""
    return array(path, key, _head(path, key, info))


def refuse_pickles(path: Path, found: Mapping[str, zipfile.ZipInfo]) -> None:
    """Read the header of every member of a large archive: one that needs a pickle is refused."""
    for key, info in found.items():
        header(path, key, _head(path, key, info))


def _head(path: Path, key: str, info: zipfile.ZipInfo) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(info) as member:
            return member.read(HEAD)
    except (zipfile.BadZipFile, zlib.error, OSError, *UNREADABLE) as error:
        raise DamageError(path, key, "a whole array", f"damage ({error})") from error


def unpack(path: Path, keys: Iterable[str], folder: Path) -> dict[str, np.ndarray]:
    """Write members of a large archive to files that we name, and map them into memory."""
    arrays, found = {}, large_members(path)
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
