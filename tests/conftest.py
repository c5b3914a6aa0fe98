"""Strict JAX for every test: no silent rank promotion; programs kept; small shared data."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np
import pytest

from zsrl_jax import programs
from zsrl_jax.data import Dataset

ROOT = Path(__file__).parent.parent
programs.keep()

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True)
def strict_jax():
    with jax.numpy_rank_promotion("raise"):
        yield


def counter_dataset(lengths, obs_dim=3, action_dim=2) -> Dataset:
    """Episodes whose values tell where they stand: obs = 1000 episode + row, action = -obs."""
    rows = max(lengths) + 1
    place = 1000.0 * np.arange(len(lengths))[:, None] + np.arange(rows)[None]
    obs = np.repeat(place[..., None], obs_dim, axis=-1).astype(np.float32)
    action = -np.repeat(place[:, :-1, None], action_dim, axis=-1).astype(np.float32)
    discount = np.ones(action.shape[:2], np.float32)
    return Dataset(obs, action, discount, np.asarray(lengths, np.int32))


@pytest.fixture
def noise_dataset() -> Dataset:
    """Three episodes of noise with 20 steps each."""
    return draw_noise()


def draw_noise() -> Dataset:
    """Draw the same three episodes of noise every time."""
    draw = np.random.default_rng(0)
    return Dataset(
        draw.normal(size=(3, 21, 4)).astype(np.float32),
        draw.uniform(-1, 1, (3, 20, 2)).astype(np.float32),
        np.ones((3, 20), np.float32),
        np.full(3, 20, np.int32),
    )


@contextlib.contextmanager
def tiny_disk(folder, options):
    """Mount a file system of memory with some options, where that is allowed."""
    folder.mkdir()
    call = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(call, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system of its own needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def command(*args, module="experiments.run", cwd=ROOT, **env):
    """Run a command of the project as a person would, and return what it printed."""
    call = [sys.executable, "-m", module, *map(str, args)]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", **env}
    env.pop("ZSRL_DATA", None)
    return subprocess.run(call, cwd=cwd, env=env, capture_output=True, text=True, timeout=500)
