"""Studies as small files that can be kept beside the code: one JSON per study and scale.

A file holds what a report draws of each run: its seeds, the mean score of each task, the random
policy's, R^2, the data, the seconds; the config of the first run, and where others differ from it.
Runs of several folders become one file, and runs that are kept already stay until they are made
again. Episodes, checkpoints and films stay in the run folders.

The runs of a cell must be alike: other seeds and collections, the same settings. Anything else is
refused before a file is changed.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.commands.report.lines import unseen_by_seed
from zsrl_jax.commands.report.load import Loaded, Row, joined, read_results
from zsrl_jax.commands.report.studies import SECTIONS
from zsrl_jax.errors import DataError
from zsrl_jax.files.atomic import write_text
from zsrl_jax.runs.identity import differing, flat, tell
from zsrl_jax.runs.results import finite
from zsrl_jax.settings.scales import DOMAINS, ENCODERS

KINDS = ("score", "oracle")  # of cells; what other studies measure is too large to keep
SMALLEST = "smoke"  # a scale whose scores say nothing, and are not kept
EXACT = ("seeds", "tasks", "scale", "failed", "forced")
ROUNDED = {"r2": 3, "data_mean": 1, "data_best": 1}  # to so many digits
CELL = ("kind", "domain", "encoder", "sampler", "fields", "value")
MARK = (*CELL, "collection")
FREE = (
    "seed",
    "data.seed",
    "data.cache",
    "log_every",
    "checkpoint_every",
    "evaluate.every",
    "evaluate.beside",
    "scale_reason",
    "data.store",
    "data.device_gib",
)  # change no score
PATHS = ("path", "store", "cache")  # of config.data: only their last part is kept


def keep(studies: list[Loaded], folder: Path) -> list[Path]:
    """Write studies, with the runs of them that are kept already; return the files.

    All are checked before the first is written. A study without a scored run is left out.
    """
    made: dict[Path, dict[str, Any]] = {}
    for study in studies:
        file = folder / f"{study.name}_{study.scale}.json"
        whole = _merged(study, file, made.get(file))
        if whole is not None:
            made[file] = whole
    if made:
        folder.mkdir(parents=True, exist_ok=True)
    for file, whole in made.items():
        write_text(file, _as_text(whole))
    return list(made)


def load_kept(folder: Path) -> list[Loaded]:
    """Read every study that is kept in a folder."""
    return [_study(file) for file in sorted(folder.glob("*_*.json"))]


def _merged(
    study: Loaded, file: Path, earlier: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return a study's runs together with those that are kept; None if none has scores."""
    if study.scale == SMALLEST:
        return None
    earlier = earlier or (_read(file) if file.exists() else {})
    versions: list[dict[str, str]] = list(earlier.get("versions", []))
    cells = {_mark(cell): cell for cell in earlier.get("cells", [])}
    base = earlier.get("config")
    for run in study.runs():
        if run.kind not in KINDS:
            continue
        cell = {name: getattr(run, name) for name in MARK} | {"run": run.folder.name}
        if run.results:
            config = _portable(run.results["config"])
            base = base or config
            if run.results["versions"] not in versions:
                versions.append(run.results["versions"])
            cell["versions"] = versions.index(run.results["versions"])
            cell["changes"] = differing(flat(base), flat(config))
            cell["results"] = _small(run)
            if "results" in (known := cells.get(_mark(cell), {})):
                _check_alike([known, cell | {"results": known["results"]}], file, again=True)
        elif "results" in cells.get(_mark(cell), {}):
            continue
        cells[_mark(cell)] = cell
    if not any("results" in cell for cell in cells.values()):
        return None
    ordered = sorted(cells.values(), key=_place)
    _check_alike(ordered, file)
    facts = {name: getattr(study, name) for name in ("name", "title", "scale", "axis", "published")}
    commands = [*earlier.get("commands", []), *study.commands]
    facts["commands"] = list(dict.fromkeys(commands))
    return {**facts, "versions": versions, "config": base, "cells": ordered}


def _place(cell: Mapping[str, Any]) -> tuple[int, ...]:
    """Return where a cell stands: domains and encoders as in the paper, others behind."""
    known = (cell["domain"], DOMAINS), (cell["encoder"], ENCODERS)
    places = (names.index(name) if name in names else len(names) for name, names in known)
    return *places, cell["collection"] or 0


def _check_alike(cells: list[dict[str, Any]], file: Path, again: bool = False) -> None:
    """Refuse a cell whose runs differ in more than seeds and collections, or repeat a seed.

    A run that was made `again` has the seeds of the one it replaces.
    """
    same: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        if "results" in cell:
            same.setdefault(_mark(cell, CELL), []).append(cell)
    for runs in same.values():
        first = runs[0]
        name = f"{first['domain']} {first['encoder']} {first['sampler']}"
        advice = f"keep them in another --folder, or remove '{file}' first"
        for run in runs[1:]:
            told = _unlike(first["changes"], run["changes"])
            if told:
                raise DataError(f"{name} has runs of other settings: {tell(told)}; {advice}")
        seeds = [seed for run in runs for seed in run["results"]["seeds"]]
        if not again and len(set(seeds)) < len(seeds):
            twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
            raise DataError(
                f"{name} has seeds {twice} in several collections: expected each seed once; "
                f"{advice}"
            )
        if len(runs) > 1 and any(run["collection"] is None for run in runs):
            raise DataError(f"{name} has one collection in some runs, several in others; {advice}")


def _unlike(one: Mapping[str, list[Any]], other: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the fields in which two configs differ, by how each differs from the same third."""
    names = dict.fromkeys([*one, *other])
    base = {name: (one.get(name) or other[name])[0] for name in names}
    found = {name: [one.get(name, [0, base[name]])[1], other.get(name, [0, base[name]])[1]]
             for name in names if name not in FREE}  # fmt: skip
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def _portable(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without the folders of one machine."""
    own = {k: Path(v).name for k, v in config["data"].items() if k in PATHS and os.path.isabs(v)}
    return {**config, "data": {**config["data"], **own}}


def _study(file: Path) -> Loaded:
    kept = _read(file)
    rows = []
    for cell in kept["cells"]:
        results = cell.get("results")
        if results:
            config = _changed(kept["config"], cell["changes"])
            results = {**results, "config": config, "versions": kept["versions"][cell["versions"]]}
        own = {name: cell[name] for name in MARK}
        rows.append(Row(folder=Path(cell["run"]), command="", results=results, **own))
    facts = {name: kept[name] for name in ("name", "title", "scale", "axis", "published")}
    return Loaded(rows=joined(rows), place="", commands=tuple(kept["commands"]), **facts)


def _read(file: Path) -> dict[str, Any]:
    expected = "expected one that `results RUNS` wrote: remove it, and keep its study again"
    try:
        kept: Any = read_results(file.parent, file.name)
    except DataError:
        raise DataError(f"'{file}' is damaged: {expected}") from None
    if not isinstance(kept, dict) or not kept.get("cells") or kept.get("name") not in SECTIONS:
        raise DataError(f"'{file}' is no study that was kept: {expected}")
    return kept


def _mark(cell: Mapping[str, Any], names: tuple[str, ...] = MARK) -> str:
    return json.dumps([cell[name] for name in names], sort_keys=True)


def _small(run: Row) -> dict[str, Any]:
    """Return what a report draws; of episodes their mean alone."""
    results = run.results or {}
    small = {name: results[name] for name in EXACT if results.get(name)}
    small |= {
        name: finite(np.round(np.array(results[name], np.float64), digits))
        for name, digits in ROUNDED.items()
        if results.get(name) is not None
    }
    for name in ("returns", "random"):
        if results.get(name):
            means = np.array(results[name], np.float64).mean(axis=-1, keepdims=True)
            small[name] = finite(np.round(means, 1))
    small["episodes"] = int(np.shape(results["returns"])[-1]) if results.get("returns") else 0
    if unseen := unseen_by_seed(run):
        small["unseen"] = finite(np.round(np.array(unseen, np.float64), 2))
    source = results["data"]["source"]
    own = "collected by ourselves" if source.startswith("collected") else Path(source).name
    small["data"] = {**results["data"], "source": own}
    small["seconds"] = {name: round(value) for name, value in results["seconds"].items()}
    return small


def _changed(base: Mapping[str, Any], changes: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the config that differs from the base as `changes` tell; absent fields are None."""
    config: dict[str, Any] = {}
    fields = flat(base) | {name: pair[1] for name, pair in changes.items()}
    gone = {name for name, pair in changes.items() if pair[1] is None}
    for path, value in fields.items():
        if path in gone:
            continue
        *above, last = path.split(".")
        place = config
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    return config


def _as_text(whole: Mapping[str, Any]) -> str:
    """Return JSON with a line per fact and per cell, so that a change is seen as a line."""
    lines = []
    for name, value in whole.items():
        if name == "cells":
            cells = ",\n  ".join(json.dumps(cell) for cell in value)
            lines.append(f' "cells": [\n  {cells}\n ]')
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
