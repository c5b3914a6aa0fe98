"""What a format reads: episodes, each checked before it is let in.

    obs [T+1, O], action [T, A], discount [T], reward [T] or None, physics [T+1, P] or None

Action t leads from obs t to obs t+1, which earns reward t and, where it is terminal, has discount
0. Whatever is wrong is a `DamageError` with the path, the file's own key, expected and found.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zsrl_jax.errors import DamageError

FIELDS = ("obs", "action", "discount", "reward", "physics")
STATES = ("obs", "physics")  # fields with T+1 rows
ACTION_SLACK = 1e-5  # beyond [-1, 1], for the rounding of others


class Episode(NamedTuple):
    """The arrays of one episode, or None where the source has no such field."""

    obs: np.ndarray
    action: np.ndarray
    discount: np.ndarray
    reward: np.ndarray | None = None
    physics: np.ndarray | None = None


class Key(NamedTuple):
    """How a field is called in the source, and in which row of it our row 0 stands."""

    name: str
    first: int = 0


class Source(NamedTuple):
    """A dataset on disk, not yet read: its episodes in order and how to read one."""

    format: str
    root: Path  # the folder of episodes, or the file
    files: Sequence[Path]  # all that decide the content
    names: Sequence[str]  # of episodes, as errors call them
    lengths: Sequence[int]  # steps that the source claims
    read: Callable[[int], Episode]
    keys: Mapping[str, Key]
    notes: Sequence[str] = ()  # what was done to the data that its user should know
    label: str = ""  # what a result calls it, if not by its format
    domain: str | None = None  # as the source says; ExORL's is told by its widths


def checked(path: object, raw: Episode, keys: Mapping[str, Key], steps: int) -> Episode:
    """Return an episode in the types of the store, after every field has been checked."""
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
        doubt = not np.isfinite(np.sum(value))  # a finite sum has finite parts
    if doubt and not np.isfinite(value).all():
        row = int(np.argwhere(~np.isfinite(value.reshape(rows, -1)).all(axis=1))[0, 0])
        raise DamageError(path, name, "finite values", f"value not finite in row {row + first}")
    return value


def flags(path: object, key: str, value: np.ndarray) -> np.ndarray:
    """Return which rows are marked, above 0, in a whole column of finite numbers."""
    value = np.ravel(value)
    if value.dtype.kind not in "fiub":
        raise DamageError(path, key, "numbers", f"type {value.dtype}")
    if not np.isfinite(value).all():
        row = int(np.flatnonzero(~np.isfinite(value))[0])
        raise DamageError(path, key, "finite values", f"value not finite in row {row}")
    return value > 0


def casts(raw: Episode, keys: Mapping[str, Key]) -> str | None:
    """Say which cast an episode needs that loses digits, or None."""
    if raw.obs.dtype == np.float64:
        return f"key '{keys['obs'].name}' is float64: cast to float32"
    return None
