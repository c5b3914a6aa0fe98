"""Do one cell: train what it needs, measure it, and leave results.json in its folder."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments import results
from experiments.paper.cells import Cell, Place
from zsrl_jax import Dataset, probe
from zsrl_jax.settings import check
from zsrl_jax.source import open_data

KEPT: dict[str, Dataset] = {}
QUIET = True  # there is one bar, over all cells


def do(cell: Cell, place: Place, tell: Callable[[str], object] = str) -> Path:
    """Complete a cell unless it is done, and return its folder; `tell` hears what it is at."""
    folder = cell.folder(place)
    if cell.is_done(place):
        return folder
    check(cell.config(place))
    encoder = cell.encoder_cell()
    if encoder is not None:
        adopt(do(encoder, place, tell), folder)
    start = time.monotonic()
    tell("data")
    dataset = _data(cell, place)
    spent = time.monotonic() - start
    tell("")
    found = KINDS[cell.kind](cell, place, dataset)
    found["seconds"] = {"data": spent, **found["seconds"]}
    results.write(folder, found | {"kind": cell.kind})
    return folder


def adopt(encoder: Path, workdir: Path) -> None:
    """Start a run folder with a trained encoder: its saves (linked) and its metrics (copied)."""
    if (workdir / "encoder").exists():
        return
    workdir.mkdir(parents=True, exist_ok=True)
    part = workdir / "encoder.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(encoder / "encoder", part, copy_function=_link)
    shutil.copyfile(encoder / "metrics.jsonl", workdir / "metrics.jsonl")
    os.replace(part, workdir / "encoder")


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)


def _data(cell: Cell, place: Place) -> Dataset:
    """Open the data of a cell; cells stand domain by domain, so one dataset is kept."""
    config = cell.config(place)
    asked = config.domain + config.data.to_json_best_effort()
    if asked not in KEPT:
        KEPT.clear()
        KEPT[asked] = open_data(config, QUIET)
    return KEPT[asked]


def _encoder(cell: Cell, place: Place, dataset: Dataset) -> dict[str, Any]:
    config = cell.config(place)
    seconds = probe.train_encoder(config, dataset, cell.folder(place), QUIET)
    return results.describe(config, dataset, cell.command(place)) | {"seconds": dict(seconds)}


def _score(cell: Cell, place: Place, dataset: Dataset) -> dict[str, Any]:
    folder = cell.folder(place)
    return results.complete(cell.config(place), dataset, folder, cell.command(place), QUIET)[1]


def _dilution(cell: Cell, place: Place, dataset: Dataset) -> dict[str, Any]:
    config, folder, start = cell.config(place), cell.folder(place), time.monotonic()
    measured = probe.dilution(config, dataset, folder, QUIET, **dict(cell.options))
    return _measured(cell, place, dataset, start, dilution=measured)


def _task_space(cell: Cell, place: Place, dataset: Dataset) -> dict[str, Any]:
    config, folder, start = cell.config(place), cell.folder(place), time.monotonic()
    measured, vectors = probe.task_space(config, dataset, folder, QUIET, **dict(cell.options))
    arrays: dict[str, Any] = dict(vectors)
    np.savez_compressed(folder / "vectors.npz", **arrays)
    return _measured(cell, place, dataset, start, task_space=measured)


def _measured(
    cell: Cell, place: Place, dataset: Dataset, start: float, **measured: dict[str, Any]
) -> dict[str, Any]:
    """Return what was measured without scores, with what every result says of itself."""
    found = results.describe(cell.config(place), dataset, cell.command(place)) | measured
    found["failed"] = [failure for part in measured.values() for failure in part.pop("failed")]
    return found | {"seconds": {"measure": time.monotonic() - start}}


KINDS = {
    "encoder": _encoder,
    "score": _score,
    "oracle": _score,
    "dilution": _dilution,
    "task_space": _task_space,
}
