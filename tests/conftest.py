"""Strict JAX for every test: no silent rank promotion; programs kept; little memory."""

import contextlib
import ctypes
import gc
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from helpers.small_data import draw_noise

from zsrl_jax.data import Dataset
from zsrl_jax.devices import compile_cache

compile_cache.keep()

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True)
def strict_jax():
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(autouse=True, scope="module")
def little_memory():
    """Forget compiled programs between modules: they are on disk, and a worker stays small."""
    yield
    jax.clear_caches()
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # else freed memory stays with the process


@pytest.fixture
def noise_dataset() -> Dataset:
    """Three episodes of noise with 20 steps each."""
    return draw_noise()
