"""Read npz archives that anyone may have made: whole or not at all, and never a pickle.

A file is read once and each member inflated in one call outside the interpreter's lock, so threads
read files side by side. Nothing is ever extracted: members are found by their key, so a name with
`..` or a symbolic link in an archive leads nowhere. The checksum of every member is compared.
"""

import functools
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from tokenize import TokenError
from typing import NamedTuple

import numpy as np

from zsrl_jax.errors import DamageError

DEFLATE_RATIO = 1032  # no deflated byte holds more: a member that claims more is a trap
MANY = 0xFFFF  # members, from which on the end of an archive does not count them
HEAD = 4096  # bytes in which the header of an array ends
END = b"PK\5\6"  # of an archive: how many members, and where their list stands
ENTRY = struct.Struct("<4s4xHH4xIIIHHH8xI")  # of that list, before the member's name
LARGE = 0xFFFFFFFF  # in place of a number that stands elsewhere, in archives of the 64-bit kind
UTF8 = 0x800  # flag of a name that is not in the archive's old code page
Buffer = bytes | memoryview


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


class Member(NamedTuple):
    """Where an array stands in an archive, and what its bytes must be."""

    offset: int
    packed: int
    size: int
    checksum: int
    method: int
    encrypted: bool


def directory(path: Path, data: bytes) -> dict[str, Member]:
    """List the arrays of an archive in memory by key, from the list at its end.

    As zipfile does, in a quarter of its time: packing reads thousands of small archives. One of the
    64-bit kind, which no episode needs, is refused.
    """
    if not data.startswith(b"PK"):
        raise DamageError(path, None, "an npz archive", looks_like(data[:64]))
    end, found = data.rfind(END, max(0, len(data) - MANY - 22)), dict[str, Member]()
    try:
        if end < 0:
            raise ValueError("File is not a zip file")
        count, size, at = struct.unpack_from("<HII", data, end + 10)
        first = at
        for _ in range(count):
            mark, bits, method, crc, packed, full, *lengths, here = ENTRY.unpack_from(data, at)
            name, extra, comment = lengths
            if mark != b"PK\1\2" or at + ENTRY.size + name > end:
                raise ValueError("Bad magic number for central directory")
            raw = data[at + ENTRY.size : at + ENTRY.size + name]
            key = raw.decode("utf-8" if bits & UTF8 else "cp437").removesuffix(".npy")
            if LARGE in (packed, full, here):
                raise DamageError(path, key, "a member below 4 GiB", "a zip64 entry")
            if key in found:
                raise DamageError(path, key, "each key once", "a second array of that name")
            found[key] = Member(here, packed, full, crc, method, bool(bits & 1))
            at += ENTRY.size + name + extra + comment
    except (ValueError, struct.error) as error:
        raise DamageError(path, None, "a whole npz archive", f"one cut off ({error})") from error
    if at - first != size:
        raise DamageError(path, None, f"a list of {size} bytes", f"one of {at - first}")
    return found


def read(path: Path, keys: Iterable[str], optional: Iterable[str] = ()) -> dict[str, np.ndarray]:
    """Read the arrays of these keys, those of `optional` where they are there."""
    data = read_bytes(path)
    found = directory(path, data)
    keys = list(keys)
    for key in keys:
        if key not in found:
            names = ", ".join(sorted(found)) or "nothing"
            raise DamageError(path, key, f"the keys {', '.join(keys)}", f"only {names}")
    wanted = [*keys, *(key for key in optional if key in found)]
    for key in found.keys() - set(wanted):  # nobody reads them, but a planted pickle is refused
        header(path, key, _inflate(path, key, data, found[key], HEAD))
    return {key: array(path, key, _inflate(path, key, data, found[key])) for key in wanted}


def _inflate(path: Path, key: str, data: bytes, member: Member, most: int | None = None) -> Buffer:
    """Return a member's bytes, checked, or its first `most` bytes."""
    size, packed = member.size, member.packed
    if member.method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.encrypted:
        found = "an encrypted one" if member.encrypted else "another compression"
        raise DamageError(path, key, "a stored or deflated array", found)
    if size > DEFLATE_RATIO * packed + HEAD:
        raise DamageError(path, key, f"at most {DEFLATE_RATIO} bytes a byte", f"{size} of {packed}")
    here = member.offset
    name, extra = struct.unpack("<HH", data[here + 26 : here + 30].ljust(4, b"\0"))
    begin = here + 30 + name + extra
    raw: Buffer = memoryview(data)[begin : begin + packed]
    if member.method == zipfile.ZIP_DEFLATED:
        try:
            raw = zlib.decompressobj(-15).decompress(raw, most or max(size, 1))
        except zlib.error as error:
            raise DamageError(path, key, "a whole array", f"damage ({error})") from error
    if most is None and (len(raw) != size or zlib.crc32(raw) != member.checksum):
        raise DamageError(
            path, key, f"{size} bytes with checksum {member.checksum:08x}",
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
    """Return shape, order, type and offset of an array, refusing what only a pickle can hold."""
    try:
        end = 10 + struct.unpack("<H", raw[8:10])[0] if raw[6:7] == b"\x01" else HEAD
        shape, fortran, dtype, offset = _parse(bytes(raw[:end]))
    except (ValueError, KeyError, TypeError, SyntaxError, TokenError, struct.error) as error:
        raise DamageError(path, key, "a numpy array", looks_like(bytes(raw[:64]))) from error
    if dtype.hasobject:
        raise DamageError(path, key, "numbers", "an object array: a pickle, which is never loaded")
    return shape, fortran, dtype, offset


def array(path: Path, key: str, raw: Buffer) -> np.ndarray:
    """Return the array that a member's bytes are."""
    shape, fortran, dtype, offset = header(path, key, raw)
    size = math.prod(shape) * dtype.itemsize
    if len(raw) - offset != size:
        raise DamageError(path, key, f"{size} bytes for shape {shape}", f"{len(raw) - offset}")
    return np.frombuffer(raw, dtype, offset=offset).reshape(shape, order="F" if fortran else "C")
