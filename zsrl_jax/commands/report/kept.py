"""Studies as small files that can be kept beside the code: one JSON per study and scale.

A file holds what a report draws of each run: its seeds, the mean score of each task, the random
policy's, R^2, the data, the seconds; the config of the first run, and where others differ from it.
Runs of several folders become one file, and runs that are kept already stay until they are made
again. Episodes, checkpoints and films stay in the run folders.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.commands.report.load import Loaded, Row, joined, read_results
from zsrl_jax.errors import DataError
from zsrl_jax.files.atomic import write_text
from zsrl_jax.runs.identity import differing
from zsrl_jax.runs.results import finite

KINDS = ("score", "oracle")  # of cells; what other studies measure is too large to keep
EXACT = ("seeds", "tasks", "scale", "failed", "forced")
ROUNDED = {"r2": 3, "data_mean": 1, "data_best": 1}  # to so many digits
MARK = ("kind", "domain", "encoder", "sampler", "fields", "value", "collection")


def keep(study: Loaded, folder: Path) -> Path:
    """Write a study, with the runs of it that are kept already; return the file."""
    file = folder / f"{study.name}_{study.scale}.json"
    earlier = _read(file) if file.exists() else {"cells": [], "commands": [], "versions": []}
    versions: list[dict[str, str]] = list(earlier["versions"])
    cells = {_mark(cell): cell for cell in earlier["cells"]}
    base = earlier.get("config")
    for run in study.runs():
        if run.kind not in KINDS:
            continue
        cell = {name: getattr(run, name) for name in MARK} | {"run": run.folder.name}
        if run.results:
            base = base or run.results["config"]
            if run.results["versions"] not in versions:
                versions.append(run.results["versions"])
            cell["versions"] = versions.index(run.results["versions"])
            cell["changes"] = _changes(base, run.results["config"])
            cell["results"] = _small(run.results)
        elif "results" in cells.get(_mark(cell), {}):
            continue
        cells[_mark(cell)] = cell
    facts = {name: getattr(study, name) for name in ("name", "title", "scale", "axis", "published")}
    facts["commands"] = list(dict.fromkeys([*earlier["commands"], *study.commands]))
    whole = {**facts, "versions": versions, "config": base, "cells": list(cells.values())}
    folder.mkdir(parents=True, exist_ok=True)
    write_text(file, _as_text(whole))
    return file


def load_kept(folder: Path) -> list[Loaded]:
    """Read every study that is kept in a folder."""
    return [_study(file) for file in sorted(folder.glob("*_*.json"))]


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
    kept = read_results(file.parent, file.name)
    if not isinstance(kept, dict) or "cells" not in kept:
        raise DataError(f"'{file}' is no study that was kept: expected one of `results RUNS`")
    return kept


def _mark(cell: Mapping[str, Any]) -> str:
    return json.dumps([cell[name] for name in MARK])


def _small(results: dict[str, Any]) -> dict[str, Any]:
    """Return what a report draws; of episodes their mean alone."""
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
    source = results["data"]["source"]
    own = "collected by ourselves" if source.startswith("collected") else source
    small["data"] = {**results["data"], "source": own}
    small["seconds"] = {name: round(value) for name, value in results["seconds"].items()}
    return small


def _flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{above}{name}"
        found |= _flat(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return found


def _changes(base: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the fields of a config that differ from the base's: [there, here]."""
    return differing(_flat(base), _flat(config))


def _changed(base: Mapping[str, Any], changes: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the config that `_changes` told of; a field that is not there is left out."""
    config: dict[str, Any] = {}
    flat = _flat(base) | {name: pair[1] for name, pair in changes.items()}
    gone = {name for name, pair in changes.items() if pair[1] is None}
    for path, value in flat.items():
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
