"""Foreign formats by name, and how `auto` tells them apart by the files' content."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zsrl_jax.data import store
from zsrl_jax.data.episode import Source
from zsrl_jax.data.formats import d4rl, exorl, hdf5, minari, npz, ogbench
from zsrl_jax.errors import DamageError, DataError


class Format(NamedTuple):
    """How a format finds its files (quickly), and opens them (with a scratch folder)."""

    find: Callable[[Path], tuple[Path, list[Path]]]  # path -> root and files
    open: Callable[[Path, Path], Source]


FORMATS: dict[str, Format] = {
    "exorl": Format(exorl.find, lambda path, scratch: exorl.open_source(path)),
    "ogbench": Format(lambda path: (path, ogbench.list_files(path)), ogbench.open_source),
    "minari": Format(lambda path: (path, minari.list_files(path)), minari.open_source),
    "d4rl": Format(lambda path: (path, [path]), d4rl.open_source),
}


def detect(path: Path) -> str:
    """Name the format of a file or a folder by its content."""
    if not path.exists():
        raise DataError(f"dataset '{path}' does not exist: expected a folder or a file")
    if path.is_file():
        return _detect_file(path)
    if store.is_store(path):
        return "store"
    if minari.data_folder(path) is not None:
        return "minari"
    with os.scandir(path) as entries:
        files = [Path(entry.path) for entry in entries if entry.name.endswith((".npz", ".hdf5"))]
    foreign = [file for file in files if not exorl.NAME.fullmatch(file.name)]
    if not foreign or len(foreign) < len(files):
        return "exorl"
    return _detect_file(min(foreign))


def _detect_file(path: Path) -> str:
    start = npz.read_bytes(path, 64)
    if start.startswith(b"PK"):
        keys: Any = npz.large_members(path)
    elif start.startswith(b"\x89HDF"):
        keys = hdf5.open_file(path)
    elif exorl.NAME.fullmatch(path.name):
        return "exorl"  # damaged; its reader says how
    else:
        raise DamageError(path, None, "a dataset (npz or HDF5)", npz.looks_like(start))
    if "observation" in keys or exorl.NAME.fullmatch(path.name):
        return "exorl"
    if "episode_0" in keys:
        return "minari"
    if "observations" in keys:
        return "ogbench" if start.startswith(b"PK") else "d4rl"
    raise DamageError(
        path, None, "observation (ExORL), observations (OGBench, D4RL) or episode_0 (Minari)",
        ", ".join(sorted(keys)[:6]) or "no keys",
    )  # fmt: skip


def from_mapping(arrays: Mapping[str, Any]) -> Source:
    """Open arrays of a notebook: flat, with D4RL's keys (a row per transition) or OGBench's."""
    arrays = {key: np.asarray(value) for key, value in arrays.items()}
    if "next_observations" in arrays or "timeouts" in arrays:
        return d4rl.from_arrays("arrays", [], arrays)
    return ogbench.from_arrays("arrays", [], [arrays])
