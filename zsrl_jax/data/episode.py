"""What a format reads: episodes, each checked before it is used.

    obs [T+1, O], action [T, A], discount [T], reward [T] or None, physics [T+1, P] or None

Action t leads from obs t to obs t+1, which earns reward t; if it is terminal, discount t is 0.
Anything wrong raises a `DamageError` with the path, the file's own key, expected and found.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zsrl_jax.errors import DamageError

FIELDS = ("obs", "action", "discount", "reward", "physics")
STATES = ("obs", "physics")  # fields with T+1 rows
ACTION_SLACK = 1e-5  # allowed beyond [-1, 1], for rounding in foreign data


class Episode(NamedTuple):
    """The arrays of one episode; None if the source has no such field."""

    obs: np.ndarray
    action: np.ndarray
    discount: np.ndarray
    reward: np.ndarray | None = None
    physics: np.ndarray | None = None


class Key(NamedTuple):
    """The name of a field in the source, and which of its rows is our row 0."""

    name: str
    first: int = 0


class Source(NamedTuple):
    """A dataset on disk, not yet read: its episodes in order and how to read one."""

    format: str
    root: Path  # the folder of episodes, or the file
    files: Sequence[Path]  # all files that the content depends on
    names: Sequence[str]  # of episodes, for error messages
    lengths: Sequence[int]  # steps of each episode, as the source claims
    read: Callable[[int], Episode]
    keys: Mapping[str, Key]
    notes: Sequence[str] = ()  # changes made to the data that the user should know of
    label: str = ""  # its name in results, if not the format's
    domain: str | None = None  # as the source says; ExORL's is known by its widths


def checked(path: object, raw: Episode, keys: Mapping[str, Key], steps: int) -> Episode:
    """Check every field of an episode; return it in the types of the store."""
    if steps < 1:
        raise DamageError(path, keys["obs"].name, "at least two rows: a transition", "one row")
    values = {}
    for field, value in raw._asdict().items():
        if value is not None:
            rows = steps + 1 if field in STATES else steps
            values[field] = _checked(path, field, np.asarray(value), keys[field], rows)
    action = values["action"]
    if np.abs(action).max(initial=0.0) > 1 + ACTION_SLACK:
        row, column = np.argwhere(np.abs(action) > 1 + ACTION_SLACK)[0]
        key, found = keys["action"], action[row, column]
        raise DamageError(
            path, key.name, "values in [-1, 1]", f"{found:.6g} in row {row + key.first}"
        )
    discount = values["discount"]
    if discount.min() < 0 or discount.max() > 1:
        found = f"{discount.min():.6g} to {discount.max():.6g}"
        raise DamageError(path, keys["discount"].name, "values in [0, 1]", found)
    return Episode(**values)


def _checked(path: object, field: str, value: np.ndarray, key: Key, rows: int) -> np.ndarray:
    name, first = key
    if value.dtype.kind not in "fiub":
        raise DamageError(path, name, "numbers", f"type {value.dtype}")
    ndim = 2 if field in ("obs", "action", "physics") else 1
    if value.ndim != ndim or len(value) != rows or 0 in value.shape:
        wanted = f"{rows + first} rows" + (" of numbers" if ndim == 1 else " of one axis each")
        shape = (len(value) + first, *value.shape[1:]) if value.ndim else ()
        raise DamageError(path, name, wanted, f"shape {shape}")
    if field == "physics":
        dtype = np.float32 if value.dtype == np.float32 else np.float64
    else:
        dtype = np.float32
    with np.errstate(over="ignore"):
        value = np.ascontiguousarray(value, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        doubt = not np.isfinite(np.sum(value))  # if the sum is finite, so is every part
    if doubt and not np.isfinite(value).all():
        row = int(np.argwhere(~np.isfinite(value.reshape(rows, -1)).all(axis=1))[0, 0])
        raise DamageError(path, name, "finite values", f"value not finite in row {row + first}")
    return value


def flags(path: object, key: str, value: np.ndarray) -> np.ndarray:
    """Return which rows of a column are above 0; the column must hold finite numbers."""
    value = np.ravel(value)
    if value.dtype.kind not in "fiub":
        raise DamageError(path, key, "numbers", f"type {value.dtype}")
    if not np.isfinite(value).all():
        row = int(np.flatnonzero(~np.isfinite(value))[0])
        raise DamageError(path, key, "finite values", f"value not finite in row {row}")
    return value > 0


def casts(raw: Episode, keys: Mapping[str, Key]) -> str | None:
    """Describe the cast of an episode that loses digits, or return None."""
    if raw.obs.dtype == np.float64:
        return f"key '{keys['obs'].name}' is float64: cast to float32"
    return None
