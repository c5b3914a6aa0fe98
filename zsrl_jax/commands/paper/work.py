"""Do one cell: train what it needs, measure it, and leave results.json in its folder."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax import Dataset
from zsrl_jax.analysis import encoder_studies
from zsrl_jax.commands.paper.cells import Cell, Place
from zsrl_jax.files import atomic
from zsrl_jax.runs import provenance, results
from zsrl_jax.training.data_source import open_data, refuse_unusable
from zsrl_jax.training.pipeline import complete

KEPT: dict[str, Dataset] = {}
QUIET = True  # there is one bar, over all cells


def do(cell: Cell, place: Place, tell: Callable[[str], object] = str) -> Path:
    """Complete a cell unless it is done, and return its folder; `tell` gets its current stage."""
    folder = cell.folder(place)
    if cell.is_done(place):
        return folder
    refuse_unusable(cell.config(place))  # again: a job's machine may have fewer devices
    encoder = cell.encoder_cell()
    if encoder is not None:
        adopt(do(encoder, place, tell), folder)
    start = time.monotonic()
    tell("data")
    dataset = _data(cell, place)
    spent = time.monotonic() - start
    tell("")
    KINDS[cell.kind](cell, place, dataset, spent)
    return folder


def adopt(encoder: Path, workdir: Path) -> None:
    """Start a run folder with a trained encoder: its saves (linked) and its metrics (copied)."""
    if (workdir / "encoder").exists():
        return
    workdir.mkdir(parents=True, exist_ok=True)
    part = atomic.part_of(workdir / "encoder")
    atomic.discard(part)
    shutil.copytree(encoder / "encoder", part, copy_function=_link)
    shutil.copyfile(encoder / "metrics.jsonl", workdir / "metrics.jsonl")
    atomic.move_in(part, workdir / "encoder")


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)


def _data(cell: Cell, place: Place) -> Dataset:
    """Open the data of a cell; cells are ordered by domain, so one dataset is kept open."""
    config = cell.config(place)
    asked = config.domain + config.data.to_json_best_effort()
    if asked not in KEPT:
        KEPT.clear()
        KEPT[asked] = open_data(config, QUIET)
    return KEPT[asked]


def _encoder(cell: Cell, place: Place, dataset: Dataset, spent: float) -> None:
    config, folder = cell.config(place), cell.folder(place)
    seconds = encoder_studies.train_encoder(config, dataset, folder, QUIET)
    _write(cell, place, dataset, {"data": spent, **seconds})


def _score(cell: Cell, place: Place, dataset: Dataset, spent: float) -> None:
    folder, command = cell.folder(place), cell.command(place)
    notes = {"kind": cell.kind, "data_seconds": round(spent, 1)}
    complete(cell.config(place), dataset, folder, command=command, quiet=QUIET, notes=notes)


def _dilution(cell: Cell, place: Place, dataset: Dataset, spent: float) -> None:
    config, folder, start = cell.config(place), cell.folder(place), time.monotonic()
    measured = encoder_studies.dilution(config, dataset, folder, QUIET, **dict(cell.options))
    seconds = {"data": spent, "measure": time.monotonic() - start}
    _write(cell, place, dataset, seconds, dilution=measured)


def _task_space(cell: Cell, place: Place, dataset: Dataset, spent: float) -> None:
    config, folder, start = cell.config(place), cell.folder(place), time.monotonic()
    options = dict(cell.options)
    measured, vectors = encoder_studies.task_space(config, dataset, folder, QUIET, **options)
    arrays: dict[str, Any] = dict(vectors)
    np.savez_compressed(folder / "vectors.npz", **arrays)
    seconds = {"data": spent, "measure": time.monotonic() - start}
    _write(cell, place, dataset, seconds, task_space=measured)


def _write(
    cell: Cell,
    place: Place,
    dataset: Dataset,
    seconds: dict[str, float],
    **measured: dict[str, Any],
) -> None:
    """Write what was measured without scores, with its origin and its command."""
    failed = [failure for part in measured.values() for failure in part.pop("failed")]
    found = provenance.describe(cell.config(place), dataset) | measured
    found |= {"command": cell.command(place), "kind": cell.kind, "seconds": seconds}
    results.write(cell.folder(place), found | ({"failed": failed} if measured else {}))


KINDS = {
    "encoder": _encoder,
    "score": _score,
    "oracle": _score,
    "dilution": _dilution,
    "task_space": _task_space,
}
