"""Tables of a report: a value is shown as text, sorted as a number, and links to its run."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zsrl_jax.analysis import statistics as stats
from zsrl_jax.commands.report.load import Loaded, Row
from zsrl_jax.commands.report.stamps import brief, updates_of

MISSING = "missing"


class Entry(NamedTuple):
    """One field of a table."""

    text: str
    value: float | None = None  # to sort by; None: by its text
    folder: Path | None = None  # the run it comes from
    folders: tuple[Path, ...] = ()  # or all of them


class Table(NamedTuple):
    """A table with its title."""

    title: str
    head: list[str]
    body: list[list[Entry]]


def number(value: float, digits: int = 1, folder: Path | None = None) -> Entry:
    """Show a number, or that it is missing."""
    if value is None or not math.isfinite(value):
        return Entry(MISSING, -math.inf, folder)
    return Entry(f"{value:.{digits}f}", value, folder)


def spread_entry(scores: np.ndarray, folder: Path | None = None) -> Entry:
    """Show a mean with its spread over seeds."""
    if not scores.size:
        return Entry(MISSING, -math.inf, folder)
    mean, spread = stats.mean_spread(scores)
    text = f"{mean:.1f}" + (f" ± {spread:.1f}" if math.isfinite(spread) else "")
    return Entry(text, mean, folder)


def score_entry(row: Row | None) -> Entry:
    """Show a cell's mean with its spread, and the runs it comes from."""
    if row is None or not row.scores.size:
        return Entry(MISSING, -math.inf)
    return _linked(spread_entry(row.scores), row)


def _linked(entry: Entry, row: Row) -> Entry:
    """Link an entry to a cell's run, or to each of its runs."""
    if len(row.runs()) == 1:
        return entry._replace(folder=row.folder)
    return entry._replace(folders=tuple(run.folder for run in row.runs() if run.results))


def by_task(study: Loaded) -> list[Table]:
    """Return one table per domain: every cell's score by task, and the random policy's."""
    found = []
    for domain in dict.fromkeys(row.domain for row in study.rows):
        rows = study.pick(domain=domain)
        scored = [row for row in rows if row.results and row.kind != "oracle"]
        known = [row.results for row in (*scored, *rows) if row.results]
        tasks = known[0]["tasks"] if known else []
        oracle = study.pick(domain=domain, kind="oracle")
        body = [_task_line(study, row, tasks) for row in rows if row.kind != "oracle"]
        if scored and scored[0].results:
            chance = np.array(scored[0].results["random"]).mean(axis=1)
            line = [Entry("random policy"), Entry("")] + ([Entry("")] if study.axis else [])
            values = [number(x, 1, scored[0].folder) for x in (*chance, chance.mean())]
            body.append([*line, *values, _run_entry(scored[0])])
        updates = updates_of(oracle, "oracle")
        name = f"oracle (TD3 on the reward, {updates} updates)" if updates else "oracle"
        body += [_task_line(study, row, tasks, name) for row in oracle]
        axis = [study.axis.split(".")[-1]] if study.axis else []
        head = ["encoder", "tasks from", *axis, *tasks, "mean", "run folder"]
        title = f"{domain}: mean return ± deviation over seeds; {brief(rows)}"
        found.append(Table(title, head, body))
    return found


def _task_line(study: Loaded, row: Row, tasks: list[str], title: str = "") -> list[Entry]:
    name = ", ".join([row.sampler, *study.settings_of(row)])
    line = [Entry(title), Entry("")] if title else [Entry(row.encoder), Entry(name)]
    if study.axis:
        line.append(Entry(f"{row.value:g}", row.value) if row.value is not None else Entry(""))
    if not row.scores.size:
        return [*line, *(Entry(MISSING, -math.inf) for _ in tasks), Entry(MISSING, -math.inf),
                Entry(row.folder.name)]  # fmt: skip
    own = row.results["tasks"] if row.results else []
    single = row.folder if len(row.runs()) == 1 else None  # else the last column leads to all
    scores = [spread_entry(row.scores[:, [own.index(task)]], single) if task in own
              else Entry(MISSING, -math.inf) for task in tasks]  # fmt: skip
    whole = spread_entry(row.scores, single)
    return [*line, *scores, whole, _run_entry(row)]


def _run_entry(row: Row) -> Entry:
    """Name a run, and how many of its seeds have a score if some failed."""
    kept = f" ({len(row.scores)} of {len(row.scores) + row.lost()} seeds)" if row.lost() else ""
    runs = row.runs()
    there = sum(run.results is not None for run in runs)
    name = row.folder.name if len(runs) == 1 else f"{there} of {len(runs)} collections"
    return _linked(Entry(name + kept), row)


def as_text(table: Table) -> str:
    """Return a table as text for a terminal."""
    rows = [table.head, *([entry.text for entry in row] for row in table.body)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.head))]
    lines = ["  ".join(f"{x:<{w}}" for x, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([table.title, *(line.rstrip() for line in lines)])
