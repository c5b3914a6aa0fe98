"""Write a dataset in a foreign format: exorl, ogbench, minari (HDF5). Whole, or not at all.

`write_dataset` returns what was left out because the format has no place for it.
Activations (quadruped) follow the velocities in `qvel`.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from zsrl_jax.data.dataset import Dataset
from zsrl_jax.data.formats import exorl, hdf5
from zsrl_jax.data.formats.minari import MAIN
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import DataError, unknown
from zsrl_jax.files.atomic import PART, discard


def write_dataset(dataset: Dataset, path: str | os.PathLike, format: str) -> list[str]:
    """Write a dataset to a new folder or file; return what the format had no place for."""
    if format not in WRITERS:
        raise DataError(unknown("format to write", format, WRITERS))
    target = Path(path)
    if format == "ogbench" and target.suffix != ".npz":
        target = target / "data.npz"
    if target.exists():
        raise DataError(f"'{target}' exists: name another place for the converted data")
    dataset.verify()
    return WRITERS[format](dataset, target)


@contextlib.contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """Yield a path to write to; it becomes the target if the block succeeds."""
    part = target.with_name(f".{target.name}{PART}")
    target.parent.mkdir(parents=True, exist_ok=True)
    discard(part)
    try:
        yield part
        os.replace(part, target)
    finally:
        discard(part)


def write_exorl(dataset: Dataset, target: Path) -> list[str]:
    """Write one npz per episode into target/buffer."""
    with _appearing(target) as part:
        (part / "buffer").mkdir(parents=True)
        for i, episode in enumerate(dataset.episodes()):
            rest = {"discount": episode.discount}
            if episode.reward is not None:
                rest["reward"] = episode.reward
            exorl.write_episode(
                part / "buffer", i, episode.obs, episode.action, episode.physics, rest
            )
    known = dataset.domain is None or dataset.physics is not None
    return [] if known else [f"the domain, {dataset.domain}: the format shows it only by physics"]


def write_ogbench(dataset: Dataset, target: Path) -> list[str]:
    """Write one npz of flat arrays, T+1 rows per trajectory; the last row's action is 0."""
    rows = int(dataset.num_transitions + dataset.num_episodes)
    flat: dict[str, np.ndarray] = {
        "observations": np.zeros((rows, dataset.spec.obs_dim), np.float32),
        "actions": np.zeros((rows, dataset.spec.action_dim), np.float32),
        "terminals": np.zeros(rows, np.float32),
        "masks": np.ones(rows, np.float32),
    }
    split = _qpos_size(dataset)
    if dataset.reward is not None:
        flat["rewards"] = np.zeros(rows, np.float32)
    if split:
        assert dataset.physics is not None
        widths = (split, dataset.physics.shape[-1] - split)
        for key, width in zip(("qpos", "qvel"), widths, strict=True):
            flat[key] = np.zeros((rows, width), dataset.physics.dtype)
    start = 0
    for episode in dataset.episodes():
        end = start + len(episode.action)
        flat["observations"][start : end + 1] = episode.obs
        flat["actions"][start:end], flat["masks"][start:end] = episode.action, episode.discount
        if episode.reward is not None:
            flat["rewards"][start:end] = episode.reward
        if split and episode.physics is not None:
            flat["qpos"][start : end + 1] = episode.physics[:, :split]
            flat["qvel"][start : end + 1] = episode.physics[:, split:]
        flat["terminals"][end], start = 1, end + 1
    if dataset.domain is not None:
        flat["domain"] = np.asarray(dataset.domain)
    with _appearing(target) as part, part.open("wb") as out:
        np.savez_compressed(out, **flat)  # type: ignore[arg-type]
    lost = dataset.physics is not None and not split
    return ["physics: where qpos ends is known only for our domains"] if lost else []


def write_minari(dataset: Dataset, target: Path) -> list[str]:
    """Write data/main_data.hdf5 and its metadata, as Minari reads them."""
    h5py, split = hdf5.need("h5py", target), _qpos_size(dataset)
    with _appearing(target) as part:
        (part / "data").mkdir(parents=True)
        with h5py.File(part / "data" / MAIN, "w", track_order=True) as file:
            for i, episode in enumerate(dataset.episodes()):
                group, steps = file.create_group(f"episode_{i}"), len(episode.action)
                group.attrs.update({"id": i, "total_steps": steps})
                reward = np.zeros(steps) if episode.reward is None else episode.reward
                ended = episode.discount == 0
                group["observations"], group["actions"] = episode.obs, episode.action
                group["rewards"], group["terminations"] = reward, ended
                group["truncations"] = ~ended & (np.arange(steps) == steps - 1)
                if split and episode.physics is not None:
                    group["infos/qpos"] = episode.physics[:, :split]
                    group["infos/qvel"] = episode.physics[:, split:]
        (part / "data" / "metadata.json").write_text(json.dumps(_minari_facts(dataset, part)))
    lost = []
    if dataset.physics is not None and not split:
        lost.append("physics: where qpos ends is known only for our domains")
    if ((dataset.discount > 0) & (dataset.discount < 1)).any():
        lost.append("discounts between 0 and 1: Minari has terminations only")
    return lost


def _minari_facts(dataset: Dataset, part: Path) -> dict:
    """Return the metadata that Minari asks for, and the domain."""

    def box(width: int, bound: float) -> str:
        limits = {"low": [-bound] * width, "high": [bound] * width}
        return json.dumps({"type": "Box", "dtype": "float32", "shape": [width], **limits})

    size = sum(f.stat().st_size for f in part.rglob("*") if f.is_file())
    return {
        "total_episodes": dataset.num_episodes,
        "total_steps": dataset.num_transitions,
        "data_format": "hdf5",
        "observation_space": box(dataset.spec.obs_dim, float("inf")),
        "action_space": box(dataset.spec.action_dim, 1.0),
        "dataset_id": f"zsrl_jax/{dataset.domain or 'data'}-v0",
        "dataset_size": round(size / 1e6, 1),
        "minari_version": "0.5.0",
        "domain": dataset.domain,
    }


def _qpos_size(dataset: Dataset) -> int:
    """Return how many numbers of a physics state are qpos, or 0 if that is not known."""
    if dataset.physics is None or dataset.domain not in DOMAINS:
        return 0
    return DOMAINS[dataset.domain].model().nq


WRITERS: dict[str, Callable[[Dataset, Path], list[str]]] = {
    "exorl": write_exorl,
    "ogbench": write_ogbench,
    "minari": write_minari,
}
