"""HDF5 files, if h5py is installed; only numbers are read from them."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from zsrl_jax.errors import DamageError, DataError


def need(name: str, path: object) -> ModuleType:
    """Import an optional package, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DataError(
            f"'{path}' needs the package {name}: pip install 'zsrl_jax[formats]'"
        ) from error


def open_file(path: Path) -> Any:
    """Open an HDF5 file for reading."""
    h5py = need("h5py", path)
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise DamageError(path, None, "a whole HDF5 file", f"damage ({error})") from error


def node(path: object, group: Any, key: str) -> Any:
    """Return the array or group that a file or mapping holds under a key, without reading it."""
    try:
        return group[key]
    except (KeyError, OSError, RuntimeError) as error:  # what h5py raises for damage, or for a link
        raise DamageError(path, key, "an array or a group", f"damage ({error})") from error


def numbers(path: object, key: str, array: Any, rows: slice = slice(None)) -> np.ndarray:
    """Read rows of an array; references, objects and groups are refused."""
    if not hasattr(array, "dtype") or array.dtype.kind not in "fiub":
        found = f"type {array.dtype}" if hasattr(array, "dtype") else "a group"
        raise DamageError(path, key, "numbers", found)
    try:
        return array[rows]
    except (OSError, RuntimeError) as error:  # a chunk that cannot be read
        raise DamageError(path, key, "a whole array", f"damage ({error})") from error


def tree(path: object, key: str, found: Any) -> Any:
    """Read a dataset, or a group as a dictionary of them."""
    if hasattr(found, "keys"):
        return {name: tree(path, f"{key}/{name}", node(path, found, name)) for name in found}
    return numbers(path, key, found)
