"""From a path or arrays to a `Dataset`: find the format, pack a store, pick episodes."""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zsrl_jax.data import packing
from zsrl_jax.data import store as stores
from zsrl_jax.data.dataset import Dataset
from zsrl_jax.data.formats.registry import FORMATS, detect, from_mapping
from zsrl_jax.data.reading import read_all
from zsrl_jax.errors import DataError, unknown

SHOWN = 3  # skipped episodes named in the warning; Dataset.skipped has all


class Subset(NamedTuple):
    """Which episodes to take: every nth; of these the first ones or, with a seed, random ones."""

    max_episodes: int | None = None
    every_nth: int = 1
    seed: int | None = None

    def pick(self, num: int) -> slice | np.ndarray:
        """Pick from `num` episodes; the order stays that of collection."""
        kept = np.arange(num)[:: self.every_nth]
        most = self.max_episodes or len(kept)
        if self.seed is None or most >= len(kept):
            return slice(0, int(kept[:most][-1]) + 1, self.every_nth)
        return np.sort(np.random.default_rng(self.seed).choice(kept, most, replace=False))


def load_dataset(
    path: str | os.PathLike[str] | Mapping[str, Any],
    format: str = "auto",
    max_episodes: int | None = None,
    *,
    every_nth: int = 1,
    subset_seed: int | None = None,
    on_bad: str = "error",
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Dataset:
    """Load a dataset; `auto` finds the format by content. The first load packs it into a store.

    `every_nth` thins the episodes; `max_episodes` then takes the first ones or, with `subset_seed`,
    random ones. `on_bad="skip"` leaves damaged episodes out and lists them. `store` is a folder for
    packed stores (default: beside the data). A mapping of arrays is read like a file with these
    keys. `train` compares the data with the store's checksums; in a notebook call `verify()`.
    """
    for name, value in (("max_episodes", max_episodes), ("every_nth", every_nth)):
        if value is not None and value < 1:
            raise DataError(f"{name} is {value}: expected at least 1")
    if on_bad not in ("error", "skip"):
        raise DataError(unknown("on_bad", on_bad, ["error", "skip"]))
    pick = Subset(max_episodes, every_nth, subset_seed).pick
    if isinstance(path, Mapping):
        dataset = stores.select(read_all(from_mapping(path), on_bad, progress), pick)
    else:
        dataset = _load(Path(path), format, pick, on_bad, (store, progress))
    tell(dataset)
    return dataset


def _load(path: Path, format: str, pick: stores.Pick, on_bad: str, how: tuple[Any, Any]) -> Dataset:
    """Open the store of a source; pack it first if there is no fresh one."""
    format = detect(path) if format == "auto" else format
    if format == "store":
        return stores.open_store(path, None, pick, on_bad)
    if format not in FORMATS:
        raise DataError(unknown("dataset format", format, [*FORMATS, "auto", "store"]))
    kind, (chosen, progress) = FORMATS[format], how
    root, files = kind.find(path)
    folders = stores.places(root, chosen)
    for folder in folders:
        if stores.is_fresh(folder, root, files):
            return stores.open_store(folder, root, pick, on_bad)
    target = next((folder for folder in folders if _is_writable(folder.parent)), folders[-1])
    try:
        packing.pack(lambda part: kind.open(path, part), target, on_bad, progress)
    except OSError as error:
        raise DataError(
            f"the store '{target}' cannot be written ({error.strerror or error}): name another "
            "folder (store=, config.data.store)"
        ) from error
    return stores.open_store(target, root, pick, on_bad)


def _is_writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK)


def tell(dataset: Dataset) -> None:
    """Warn of changes made to the data while loading, and of skipped episodes."""
    lines = list(dataset.notes)
    if dataset.skipped:
        lines.append(f"{len(dataset.skipped)} damaged episodes skipped (Dataset.skipped):")
        lines += [f"  {line}" for line in dataset.skipped[:SHOWN]]
        lines += ["  ..."] if len(dataset.skipped) > SHOWN else []
    if lines:
        warnings.warn(f"{dataset.source}: " + "\n".join(lines), stacklevel=3)
