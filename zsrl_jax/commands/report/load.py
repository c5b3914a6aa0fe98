"""Read studies with their cells, and runs, from disk; cells without results are kept as missing.

Cells that differ in their collection alone are read as one row, with the seeds of all of them.
"""

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zsrl_jax.analysis import statistics as stats
from zsrl_jax.errors import DataError

# Lists of results.json that have an entry per seed, and what holds such lists.
BY_SEED = ("seeds", "returns", "r2", "ridge", "cosine", "failed", "dilution", "trace", "variance",
           "uniform", "subtraj", "btd", "task_space", "overlap")  # fmt: skip


class Row(NamedTuple):
    """A cell of a study, or a single run: what it is, and its results if there are any."""

    domain: str
    encoder: str
    sampler: str
    fields: dict[str, Any]
    value: float | None  # its value on the study's axis
    folder: Path
    command: str
    results: dict[str, Any] | None
    kind: str = "score"
    started: dict[str, Any] | None = None  # run.json of a run without results
    collection: int | None = None  # the number of its collection, if its cell has several
    parts: tuple["Row", ...] = ()  # the runs of a cell, one per collection; empty: it is one run

    def runs(self) -> tuple["Row", ...]:
        """Return the runs of a cell."""
        return self.parts or (self,)

    @property
    def scores(self) -> np.ndarray:
        """Return scores [seed, task], means over episodes; seeds without a score are left out."""
        found = list(self.by_seed().values())
        return np.stack(found) if found else np.zeros((0, 0))

    def by_seed(self) -> dict[int, np.ndarray]:
        """Return scores [task] of every seed that has them."""
        results = self.results or {}
        if not results.get("returns"):
            return {}
        table = np.array(results["returns"], np.float64).mean(axis=2)
        whole = np.isfinite(table).all(axis=1)
        pairs = zip(results["seeds"], table, whole, strict=True)
        return {seed: scores for seed, scores, good in pairs if good}

    def units(self) -> list[int]:
        """Return for every seed with a score what was drawn independently of the others.

        This is its collection, or the seed itself where the study has one collection.
        """
        results = self.results or {}
        scored, of = list(self.by_seed()), results.get("collections", ())
        if not of:
            return scored
        collection = dict(zip(results["seeds"], of, strict=True))
        return [collection[seed] for seed in scored]

    def interval(self) -> stats.Estimate:
        """Return the mean score with its interval over seeds, or collections if it has several."""
        return stats.interval(self.scores, self.units())

    def lost(self) -> int:
        """Return how many seeds of a run have no score, or were not measured."""
        results = self.results or {}
        if results.get("returns"):
            return len(results["returns"]) - len(self.by_seed())
        return len(results.get("failed", ()))

    @property
    def mean(self) -> float:
        """Return the mean score; nan if it is missing."""
        return float(self.scores.mean()) if self.scores.size else float("nan")


class Loaded(NamedTuple):
    """A study as it stands on disk."""

    name: str
    title: str
    scale: str
    axis: str
    rows: list[Row]
    published: dict[str, dict[str, list[float]]]
    place: str  # its folder below the report's root; each scale has its own
    commands: tuple[str, ...] = ()  # that planned its cells, without where and how they ran

    def pick(self, **wanted: Any) -> list[Row]:
        """Return the rows with these properties."""
        return [r for r in self.rows if all(getattr(r, k) == v for k, v in wanted.items())]

    def names(self, what: str) -> list[Any]:
        """Return the values of a property in the study's order."""
        return list(dict.fromkeys(getattr(r, what) for r in self.rows if r.kind != "oracle"))

    def settings_of(self, row: Row) -> list[str]:
        """Return a cell's fields that other cells have otherwise, without the axis."""
        others = [r.fields for r in self.rows if r.kind != "oracle"]
        own = {path: value for path, value in row.fields.items() if path != self.axis}
        return [
            f"{path.split('.')[-1]} {value}"
            for path, value in own.items()
            if any(fields.get(path) != value for fields in others)
        ]

    def runs(self) -> list[Row]:
        """Return every run of every cell."""
        return [run for row in self.rows for run in row.runs()]

    def missing(self) -> list[Row]:
        """Return the runs without results."""
        return [run for run in self.runs() if run.results is None]


def read_results(folder: Path, name: str = "results.json") -> dict[str, Any] | None:
    """Return a run's results (or another file of its folder), or None if there are none."""
    file = folder / name
    if not file.exists():
        return None
    try:
        return json.loads(file.read_text())
    except ValueError as error:
        raise DataError(f"'{file}' is damaged: {error}; run its command again") from error


def load_study(file: Path, place: str = ".") -> Loaded:
    """Read a study and the results of its cells; `place` is the name of its folder."""
    plan = json.loads(file.read_text())
    rows = []
    for cell in plan["cells"]:
        folder = file.parent / cell["folder"]
        own = {name: cell[name] for name in Row._fields if name in cell and name != "folder"}
        results = read_results(folder)
        if results is not None and results["config"] != cell.get("config", results["config"]):
            results = None  # they are of other settings than the plan's
        rows.append(Row(folder=folder, results=results, **own))
    facts = {name: plan[name] for name in ("name", "title", "scale", "axis", "published")}
    commands = tuple(plan.get("commands", ()))
    return Loaded(rows=joined(rows), place=place, commands=commands, **facts)


def joined(rows: list[Row]) -> list[Row]:
    """Return rows with the runs of a cell's collections as one row each, in the same order."""
    cells: dict[str, list[Row]] = {}
    for row in rows:
        alone = row.folder.as_posix() if row.collection is None else ""
        same = row.kind, row.domain, row.encoder, row.sampler, row.value, row.fields, alone
        cells.setdefault(repr(same), []).append(row)
    return [_one(runs) if runs[0].collection is not None else runs[0] for runs in cells.values()]


def _one(runs: list[Row]) -> Row:
    """Return the runs of one cell as a row: results hold the seeds of all that are there."""
    known = [(run, run.results) for run in runs if run.results]
    if not known:
        return runs[0]._replace(parts=tuple(runs))
    found = [results for _, results in known]
    whole = _together(found)
    whole["collections"] = [run.collection for run, results in known for _ in results["seeds"]]
    return known[0][0]._replace(results=whole, parts=tuple(runs))


def _together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return results with what is by seed joined; the rest is alike, and taken from the first."""
    whole = dict(found[0])
    for name in BY_SEED:
        if name in whole:
            if isinstance(whole[name], dict):
                whole[name] = _together([results[name] for results in found])
            else:
                whole[name] = [value for results in found for value in results[name]]
    return whole


def load_studies(*roots: Path) -> list[Loaded]:
    """Find every study under some folders, each once; folders of the same name are numbered."""
    found: dict[Path, Loaded] = {}
    named: Counter[str] = Counter()
    for root in roots:
        name = root.resolve().name
        named[name] += 1
        name += f"-{named[name]}" if named[name] > 1 else ""
        for file in sorted(root.rglob("*.study.json")):
            place = (Path(name) / file.parent.relative_to(root)).as_posix()
            found.setdefault(file.resolve(), load_study(file, place))
    return list(found.values())


def load_runs(root: Path) -> list[Row]:
    """Find every scored run under a folder."""
    found = []
    for file in sorted(root.rglob("results.json")):
        results = read_results(file.parent)
        if not results or not results.get("returns"):
            continue
        config = results["config"]
        kind = "oracle" if "oracle" in config else "score"
        if kind == "oracle":
            names = "oracle", ", ".join(config["oracle"]["tasks"])
        else:
            names = config["encoder"]["name"], config["tasks"]["sampler"]
        command = shlex.join(results["command"])
        found.append(Row(config["domain"], *names, {}, None, file.parent, command, results, kind))
    return found
