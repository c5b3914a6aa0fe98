"""Datasets: one file per format; each dataset is packed into a store and read as a `Dataset`."""

from zsrl_jax.data.dataset import Dataset
from zsrl_jax.data.device import Normalizer, fit_normalizer, store_bytes, to_device
from zsrl_jax.data.formats.registry import FORMATS
from zsrl_jax.data.loading import load_dataset

__all__ = [
    "FORMATS",
    "Dataset",
    "Normalizer",
    "fit_normalizer",
    "load_dataset",
    "store_bytes",
    "to_device",
]
