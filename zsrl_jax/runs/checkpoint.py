"""A checkpoint folder: an Orbax tree beside a manifest with a checksum of every file.

It appears whole or not at all: it is written under another name, every file and folder is synced,
it is renamed, and its parent is synced. Before Orbax opens anything, a file that is missing,
changed, added or a link is refused by name, because Orbax would not notice. All contents are JSON
and arrays: nothing can be run.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from zsrl_jax.errors import DataError, DiskError
from zsrl_jax.files.atomic import discard, move_in, part_of, sync, take_back, write_text
from zsrl_jax.runs.orbax_noise import one_report

MANIFEST = "manifest.json"
SHRINKS = 4  # how much smaller compression is taken to make a save, at most


def save(folder: str | os.PathLike, tree: Any, meta: dict[str, Any]) -> None:
    """Write a tree of arrays and its description, replacing an earlier checkpoint."""
    folder = Path(folder).absolute()
    part = part_of(folder)
    try:
        discard(part)
        part.mkdir(parents=True)
        _refuse_if_full(part, tree)
        _write(part, tree, meta)
        move_in(part, folder)
    except DataError:
        raise
    except Exception as error:  # Orbax and TensorStore have their own errors for a full disk
        cause = _system_cause(error) or _refusal(part) or _first_line(error)
        shutil.rmtree(part, ignore_errors=True)
        raise DiskError(
            f"cannot write checkpoint '{folder}': {cause}; what was saved before is "
            "intact: once the disk takes files, run the same command again to go on"
        ) from error


def _refuse_if_full(part: Path, tree: Any) -> None:
    """Raise the disk's own error where a save would hardly fit, even compressed.

    Orbax's threads were seen to wait for each other for minutes on a disk that was full. Arrays of
    mostly equal numbers shrink more than this reckons with, and are refused too.
    """
    size = sum(getattr(leaf, "nbytes", 0) for leaf in jax.tree.leaves(tree))
    if size > SHRINKS * shutil.disk_usage(part).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _write(part: Path, tree: Any, meta: dict[str, Any]) -> None:
    with one_report(), _checkpointer() as checkpointer:
        checkpointer.save(part / "tree", jax.device_get(tree))  # without devices
    for file in _files(part):
        sync(file)
    write_manifest(part, meta, checksums(part))
    for place in [part, *(p for p in part.rglob("*") if p.is_dir())]:
        sync(place)


def read_meta(folder: str | os.PathLike) -> dict[str, Any] | None:
    """Return the description of a checkpoint, or None if there is no checkpoint."""
    folder = Path(folder)
    take_back(folder, MANIFEST)
    return read_manifest(folder)["meta"] if (folder / MANIFEST).exists() else None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest, if its own checksum is right."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        checksum = manifest.pop("checksum")
        good = checksum == _checksum(manifest) and manifest.keys() == {"meta", "files"}
    except (OSError, ValueError, KeyError, AttributeError, RecursionError):
        good = False
    if not good:
        raise DataError(_damaged(folder, MANIFEST, "is missing or not what was written"))
    return manifest


def write_manifest(folder: Path, meta: dict[str, Any], files: dict[str, str]) -> None:
    """Write the description of a folder, the checksums of its files, and one of both."""
    manifest = {"meta": meta, "files": files}
    text = json.dumps({**manifest, "checksum": _checksum(manifest)}, indent=1)
    write_text(folder / MANIFEST, text)


def verify(folder: str | os.PathLike) -> dict[str, Any]:
    """Check every file of a checkpoint against the manifest; return the description."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    for place in [folder, *folder.rglob("*")]:
        if place.is_symlink():
            raise DataError(_damaged(folder, place.name, "is a link, which a save never has"))
    found = checksums(folder)
    for name in sorted(manifest["files"].keys() | found.keys()):
        if name not in found:
            raise DataError(_damaged(folder, name, "is missing"))
        if found[name] != manifest["files"].get(name):
            raise DataError(_damaged(folder, name, "is not what was written"))
    return manifest["meta"]


def restore(folder: str | os.PathLike, like: Any, checked: bool = False) -> Any:
    """Read a tree with the shapes of `like`, after all its files have been checked."""
    folder = Path(folder).absolute()
    if read_meta(folder) is None:
        raise DataError(f"no checkpoint in '{folder}': expected a folder with {MANIFEST}")
    if not checked:
        verify(folder)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), like)
    try:
        with _checkpointer() as checkpointer:
            stored = checkpointer.metadata(folder / "tree").item_metadata.tree
            if misfits := _misfits(stored, shapes):
                raise ValueError(f"{misfits[0]} ({len(misfits)} arrays differ)")
            return jax.tree.map(_on_device, checkpointer.restore(folder / "tree", shapes))
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DataError(
            f"checkpoint '{folder}' does not fit this config: {_cause(error)}"
        ) from error


def _checkpointer() -> ocp.StandardCheckpointer:
    """Return a checkpointer that waits for no other process."""
    me = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=me, active_processes={me}, barrier_sync_key_prefix=f"process_{me}"
    )
    return ocp.StandardCheckpointer(multiprocessing_options=alone)


def _on_device(leaf: Any) -> Any:
    """Return an array on the device, or unchanged if JAX has no such type (float64)."""
    same = jax.dtypes.canonicalize_dtype(leaf.dtype) == leaf.dtype
    return jnp.asarray(leaf) if same and isinstance(leaf, np.ndarray) else leaf


def _misfits(stored: Any, asked: Any) -> list[str]:
    """Describe the arrays whose shape on disk is not the one asked for, or that are missing."""
    was, now = (
        {jax.tree_util.keystr(path, simple=True, separator="."): tuple(leaf.shape)
         for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        for tree in (stored, asked)
    )  # fmt: skip
    return [
        f"array '{name}' has shape {was.get(name, 'none')}, {now.get(name, 'none')} is asked for"
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name)
    ]


def checksums(folder: Path) -> dict[str, str]:
    """Return path -> checksum of every file in a folder, except the manifest."""
    found = {}
    for file in _files(folder):
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16))
        found[file.relative_to(folder).as_posix()] = digest.hexdigest()
    return found


def _files(folder: Path) -> Iterator[Path]:
    return (f for f in sorted(folder.rglob("*")) if f.is_file() and f != folder / MANIFEST)


def _checksum(manifest: dict[str, Any]) -> str:
    text = json.dumps(manifest, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _damaged(folder: Path, name: str, what: str) -> str:
    return f"checkpoint '{folder}' is damaged: file '{name}' {what}"


def _cause(error: BaseException) -> str:
    """Return the operating system's message if it is known, else the error's first line."""
    return _system_cause(error) or _first_line(error)


def _system_cause(error: BaseException) -> str:
    """Return the operating system's message behind an error; empty if it is not known."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno:
            return os.strerror(seen.errno)
        seen = seen.__cause__ or seen.__context__
    code = re.search(r"os_error_code='(\d+)'", str(error))  # TensorStore's way to say it
    return os.strerror(int(code[1])) if code else ""


def _refusal(folder: Path) -> str:
    """Ask the disk itself why it takes no more; empty if it takes a file.

    Several of Orbax's threads fail when a disk is full. Once, on a busy machine, the error that
    arrived first did not name the cause.
    """
    try:
        (folder / "asked").write_bytes(bytes(2**20))
    except OSError as error:
        return os.strerror(error.errno or 0)
    return ""


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
