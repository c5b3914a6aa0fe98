"""Datasets: one file a format, all read into one `Dataset`."""

import os
from collections.abc import Callable

from zsrl_jax.data import exorl
from zsrl_jax.data.dataset import Dataset, Normalizer, fit_normalizer, to_device
from zsrl_jax.errors import DataError, unknown

FORMATS: dict[str, Callable[..., Dataset]] = {"exorl": exorl.load}

__all__ = ["FORMATS", "Dataset", "Normalizer", "fit_normalizer", "load_dataset", "to_device"]


def load_dataset(
    path: str | os.PathLike, format: str = "auto", max_episodes: int | None = None
) -> Dataset:
    """Load a dataset from disk; `auto` tells the format by what the folder holds."""
    if max_episodes is not None and max_episodes < 1:
        raise DataError(f"max_episodes is {max_episodes}: expected at least 1, or None for all")
    if format == "auto":
        format = "exorl"
    if format not in FORMATS:
        raise DataError(unknown("dataset format", format, [*FORMATS, "auto"]))
    return FORMATS[format](path, max_episodes=max_episodes)
