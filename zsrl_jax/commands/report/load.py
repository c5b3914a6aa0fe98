"""Read studies with their cells, and runs, from disk; cells without results are kept as missing."""

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zsrl_jax.errors import DataError


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

    def pick(self, **wanted: Any) -> list[Row]:
        """Return the rows with these properties."""
        return [r for r in self.rows if all(getattr(r, k) == v for k, v in wanted.items())]

    def names(self, what: str) -> list[Any]:
        """Return the values of a property in the study's order."""
        return list(dict.fromkeys(getattr(r, what) for r in self.rows if r.kind != "oracle"))

    def missing(self) -> list[Row]:
        """Return the cells without results."""
        return [row for row in self.rows if row.results is None]


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
    return Loaded(rows=rows, place=place, **facts)


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


def stamp(rows: list[Row]) -> str:
    """Return the scale, data and seeds of rows in one line; every figure carries it."""
    known = [found for row in rows if (found := row.results or row.started)]
    if not known:
        return "no results yet"
    scales = sorted({r["scale"] for r in known})
    seeds = sorted({len(r["seeds"]) for r in known})
    own = [r["data"] for r in known if r["data"]["source"].startswith("collected")]
    data = sorted({r["data"]["source"] for r in known if r["data"] not in own})
    if own:
        episodes = sorted({data["episodes"] for data in own})
        data = [f"collected by ourselves (RND, {', '.join(map(str, episodes))} episodes)", *data]
    text = f"scale: {', '.join(scales)} · seeds: {', '.join(map(str, seeds))} · "
    text += "data: " + ", ".join(data)
    for stage in ("encoder", "policy"):
        of = [r for r in known if stage == "encoder" or r.get("returns")]
        updates = {r["config"][stage]["updates"] for r in of if stage in r["config"]}
        if updates:
            text += f" · {stage} updates: " + ", ".join(f"{n:,}" for n in sorted(updates))
    if lost := sum(row.lost() for row in rows):
        text += f" · {lost} seeds failed"
    if own or scales != ["paper"]:
        text += " · not comparable with published ExORL scores"
    return text
