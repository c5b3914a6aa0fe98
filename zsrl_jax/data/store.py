"""The packed store: a `.npy` memory map per field in episode layout, and a JSON manifest.

    obs.npy [episode, T+1, O], action.npy [episode, T, A], discount.npy, reward.npy, physics.npy

Observations are kept once: the next observation is the next row. The manifest holds the format's
version, sizes, a checksum per episode and field, and the source's files with size and time. A
source that changed is packed anew. Opening maps the files and checks the manifest and the sizes.
Contents are compared with their checksums when a run computes the dataset's fingerprint.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.data.dataset import Dataset, Packed, guess_domain
from zsrl_jax.data.episode import FIELDS, STATES
from zsrl_jax.errors import DamageError, DataError

VERSION = 2
MANIFEST = "manifest.json"
NAME = ".zsrl_store"
Pick = Callable[[int], slice | np.ndarray]


def places(root: Path, chosen: str | os.PathLike | None = None) -> list[Path]:
    """Return where the store of a source may be: beside it, else in the user's cache."""
    mark = hashlib.blake2b(str(root.resolve()).encode(), digest_size=6).hexdigest()
    name = f"{root.resolve().name}_{mark}"
    if chosen:
        return [Path(chosen) / name]
    beside = root / NAME if root.is_dir() else root.with_name(f".{root.name}{NAME}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [beside, cache / "zsrl_jax" / "stores" / name]


def is_store(folder: Path) -> bool:
    """Tell whether a folder is a store, by its manifest."""
    return (folder / MANIFEST).is_file() and (folder / "obs.npy").is_file()


def stamps(root: Path, files: Sequence[Path]) -> dict[str, list[int]]:
    """Return size and time of change of every file, by its path relative to the root's folder."""
    folder = str(root if root.is_dir() else root.parent)
    found = {}
    for file in map(str, files):  # strings: ten thousand paths cost half a second
        parent, name = os.path.split(file)
        name = name if parent == folder else os.path.relpath(file, folder)
        try:
            status = os.stat(file)
            found[name] = [status.st_size, status.st_mtime_ns]
        except OSError:  # such as a broken link: its reader reports it
            found[name] = [-1, -1]
    return found


def write_manifest(folder: Path, body: dict[str, Any]) -> None:
    """Write the manifest with a checksum of its own, synced."""
    text = json.dumps(body)
    seal = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    with (folder / MANIFEST).open("w") as out:
        json.dump({"seal": seal, "body": text}, out)
        out.flush()
        os.fsync(out.fileno())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return a store's manifest, if it is whole and of this version."""
    try:
        outer = json.loads((folder / MANIFEST).read_bytes())
        text, seal = outer["body"], outer["seal"]
        if hashlib.blake2b(text.encode(), digest_size=16).hexdigest() != seal:
            raise ValueError("its checksum does not match")
        body = json.loads(text)
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = f"damage ({error}): delete '{folder}'"
        raise DamageError(folder / MANIFEST, None, "a whole manifest", found) from error
    if body["version"] != VERSION:
        found = f"version {body['version']}: delete '{folder}' to pack it anew"
        raise DamageError(folder / MANIFEST, "version", f"{VERSION}", found)
    return body


def is_fresh(folder: Path, root: Path, files: Sequence[Path]) -> bool:
    """Tell whether a store was packed from these files, unchanged since."""
    if not is_store(folder):
        return False
    try:
        return read_manifest(folder)["files"] == stamps(root, files)
    except DataError:
        return False  # it is packed anew


def open_store(folder: Path, root: Path | None, pick: Pick, on_bad: str = "error") -> Dataset:
    """Map a store into memory; `pick` gives the wanted episodes out of a number of them.

    A store that was packed without its damaged episodes opens only with on_bad="skip".
    """
    body = read_manifest(folder)
    skipped = [DamageError(*parts) for parts in body["skipped"]]
    if skipped and on_bad == "error":
        raise skipped[0]
    sums = {field: np.asarray(sums, np.int64) for field, sums in body["sums"].items()}
    fields = {f: _map(folder, f, body["fields"][f]) for f in FIELDS if f in body["fields"]}
    known = guess_domain(fields) if body["format"] == "exorl" else body["domain"]
    whole = Dataset(
        length=np.asarray(body["lengths"], np.int32), domain=known,
        source=f"{body['label'] or body['format']}:{root or folder}",
        notes=tuple(body["notes"]), skipped=tuple(str(damage) for damage in skipped),
        packed=Packed(folder, body["names"], sums), **fields,
    )  # fmt: skip
    return select(whole, pick)


def select(dataset: Dataset, pick: Pick) -> Dataset:
    """Return the picked episodes: a view of the same memory if they are evenly spaced."""
    picked = pick(dataset.num_episodes)
    length = dataset.length[picked]
    fields: dict[str, Any] = {}
    for field in FIELDS:
        whole = getattr(dataset, field)
        if whole is not None:
            fields[field] = whole[picked, : length.max() + (field in STATES)]
    packed = dataset.packed
    if packed is not None:
        names = np.asarray(packed.names)[picked].tolist()
        sums = {field: value[picked] for field, value in packed.sums.items()}
        packed = packed._replace(names=names, sums=sums)
    return dataclasses.replace(dataset, length=length, packed=packed, **fields)


def _map(folder: Path, field: str, expected: dict[str, Any]) -> np.ndarray:
    """Map one field, if the file matches the manifest; a pickle is never loaded."""
    file = folder / f"{field}.npy"
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    except (OSError, ValueError, EOFError) as error:
        have = f"damage ({error}): delete '{folder}' to pack it anew"
        raise DamageError(file, field, "a whole array", have) from error
    found = {"shape": list(array.shape), "dtype": array.dtype.str, "bytes": file.stat().st_size}
    for name, wanted in expected.items():
        if found[name] != wanted:
            have = f"{found[name]}: delete '{folder}' to pack it anew"
            raise DamageError(file, field, f"{name} {wanted}", have)
    return array
