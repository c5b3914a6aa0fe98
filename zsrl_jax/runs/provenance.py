"""Where a result comes from: config, versions, scale, data and seeds, as JSON.

A run writes them to `run.json` when it starts, so that an unfinished run has them too.
"""

import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

import jax
from ml_collections import ConfigDict

import zsrl_jax
from zsrl_jax.data import Dataset
from zsrl_jax.files.atomic import write_text

FILE = "run.json"
PACKAGES = ("jax", "flax", "optax", "distrax", "orbax-checkpoint", "dm_control", "mujoco", "numpy")


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    own = {"zsrl_jax": zsrl_jax.__version__, "python": platform.python_version()}
    return {**own, **found, "backend": jax.default_backend()}


def describe(config: ConfigDict, dataset: Dataset, mark: str = "") -> dict[str, Any]:
    """Return what every result must carry; `mark` is the data's checksum, if it is known."""
    return {
        "scale": config.scale,
        "data": {
            "source": dataset.source,
            "episodes": dataset.num_episodes,
            "transitions": dataset.num_transitions,
            "notes": list(dataset.notes),
            "skipped": list(dataset.skipped),
            "fingerprint": mark or dataset.fingerprint(),
        },
        "seeds": [config.seed + i for i in range(config.seeds)],
        "config": json.loads(config.to_json_best_effort()),
        "versions": versions(),
    }


def write(workdir: Path, config: ConfigDict, dataset: Dataset, mark: str) -> None:
    """Write run.json into a run's folder."""
    write_text(workdir / FILE, json.dumps(describe(config, dataset, mark), indent=1))
