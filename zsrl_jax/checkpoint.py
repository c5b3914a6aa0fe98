"""What lasts on disk: Orbax trees beside a manifest with a checksum of every file.

A checkpoint is a folder that appears whole or not at all: it is written under another name,
synced, and renamed. Orbax alone restores a bit-flipped array without a word; the manifest notices.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from zsrl_jax.errors import DataError

MANIFEST = "manifest.json"


def save(folder: str | os.PathLike, tree: Any, meta: dict[str, Any]) -> None:
    """Write a tree of arrays and its description, replacing what stood there."""
    folder = Path(folder).absolute()
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(part / "tree", tree)
    manifest = {"meta": meta, "files": _checksums(part)}
    write_text(part / MANIFEST, json.dumps(manifest, indent=1))
    old = folder.with_name(folder.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.replace(folder, old)
    os.replace(part, folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def read_meta(folder: str | os.PathLike) -> dict[str, Any] | None:
    """Return the description of a checkpoint, or None where there is none."""
    folder = Path(folder)
    old = folder.with_name(folder.name + ".old")
    if not folder.exists() and (old / MANIFEST).exists():
        os.replace(old, folder)  # a save was cut off between its two renames
    if not (folder / MANIFEST).exists():
        return None
    try:
        return json.loads((folder / MANIFEST).read_text())["meta"]
    except (ValueError, KeyError) as error:
        raise DataError(
            f"checkpoint '{folder}' is damaged: its manifest cannot be read; delete the folder "
            "and run the same command again"
        ) from error


def restore(folder: str | os.PathLike, like: Any) -> Any:
    """Read a tree with the shapes of `like`, after every file has been checked."""
    folder = Path(folder).absolute()
    if read_meta(folder) is None:
        raise DataError(f"no checkpoint in '{folder}': expected a folder with {MANIFEST}")
    files = json.loads((folder / MANIFEST).read_text())["files"]
    found = _checksums(folder)
    for name, checksum in files.items():
        if found.get(name) != checksum:
            raise DataError(
                f"checkpoint '{folder}' is damaged: file '{name}' is not what was written; "
                "delete the folder and run the same command again"
            )
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), like)
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(folder / "tree", shapes)


def write_text(file: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    part = file.with_name(file.name + ".part")
    with part.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(part, file)


def _checksums(folder: Path) -> dict[str, str]:
    files = sorted(f for f in folder.rglob("*") if f.is_file() and f.name != MANIFEST)
    return {
        str(f.relative_to(folder)): hashlib.blake2b(f.read_bytes(), digest_size=16).hexdigest()
        for f in files
    }


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
