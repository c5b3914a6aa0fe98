"""Tables of a report: a value is shown as text, sorted as a number, and links to its run."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zsrl_jax.analysis import statistics as stats
from zsrl_jax.commands.report.load import Loaded, Row

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
        body += [_task_line(study, row, tasks, "oracle (TD3 on the reward)") for row in oracle]
        axis = [study.axis.split(".")[-1]] if study.axis else []
        head = ["encoder", "tasks from", *axis, *tasks, "mean", "run folder"]
        found.append(Table(f"{domain}: mean return ± deviation over seeds", head, body))
    return found


def _task_line(study: Loaded, row: Row, tasks: list[str], title: str = "") -> list[Entry]:
    name = row.sampler + "".join(f", {k.split('.')[-1]} {v}" for k, v in row.fields.items()
                                 if k != study.axis)  # fmt: skip
    line = [Entry(title), Entry("")] if title else [Entry(row.encoder), Entry(name)]
    if study.axis:
        line.append(Entry(f"{row.value:g}", row.value) if row.value is not None else Entry(""))
    if not row.scores.size:
        return [*line, *(Entry(MISSING, -math.inf) for _ in tasks), Entry(MISSING, -math.inf),
                Entry(row.folder.name)]  # fmt: skip
    own = row.results["tasks"] if row.results else []
    scores = [spread_entry(row.scores[:, [own.index(task)]], row.folder) if task in own
              else Entry(MISSING, -math.inf) for task in tasks]  # fmt: skip
    whole = spread_entry(row.scores, row.folder)
    return [*line, *scores, whole, _run_entry(row)]


def _run_entry(row: Row) -> Entry:
    """Name a run, and how many of its seeds have a score if some failed."""
    kept = f" ({len(row.scores)} of {len(row.scores) + row.lost()} seeds)" if row.lost() else ""
    return Entry(row.folder.name + kept, None, row.folder)


def comparison(study: Loaded) -> Table:
    """Compare btd with uniform, encoder by encoder: gain, outcome, probability of improvement."""
    head = ["domain", "encoder", "uniform", "btd", "gain %", "outcome", "P(btd > uniform)", "95 %"]
    body, outcomes, gains = [], [], []
    for domain in study.names("domain"):
        for encoder in study.names("encoder"):
            pair = [study.pick(domain=domain, encoder=encoder, sampler=s)[:1]
                    for s in ("uniform", "btd")]  # fmt: skip
            u, b = (p[0].scores if p else np.zeros((0, 0)) for p in pair)
            folders = [p[0].folder if p else None for p in pair]
            line = [Entry(domain), Entry(encoder), spread_entry(u, folders[0]),
                    spread_entry(b, folders[1])]  # fmt: skip
            b, u = common_seeds(pair[1][0], pair[0][0]) if all(pair) else (b[:0], u[:0])
            if u.size and b.size:
                gain = stats.gain(float(b.mean()), float(u.mean()))
                outcome = stats.outcome(b.mean(axis=1), u.mean(axis=1))
                shown = number(gain) if math.isfinite(gain) else Entry("undefined", -math.inf)
                line += [shown, Entry(outcome), *_improvement(b, u)]
                outcomes.append(outcome)
                gains += [gain] if math.isfinite(gain) else []
            else:
                line += [Entry(MISSING, -math.inf) for _ in range(4)]
            body.append(line)
    words = {"win": "wins", "tie": "ties", "loss": "losses"}
    counts = ", ".join(f"{outcomes.count(word)} {many}" for word, many in words.items())
    if len(outcomes) < len(body):
        counts += f", {len(body) - len(outcomes)} missing"
    average = f"{np.mean(gains):+.1f} %" if gains else MISSING
    title = f"BTD against uniform: {counts}; average gain {average} (paper: 13 of 15 won, +20 %)"
    return Table(title, head, body)


def common_seeds(one: Row, other: Row) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores [seed, task] of two runs over the seeds that both have, in one order."""
    a, b = one.by_seed(), other.by_seed()
    both = [seed for seed in a if seed in b]
    if not both:
        return np.zeros((0, 0)), np.zeros((0, 0))
    return np.stack([a[s] for s in both]), np.stack([b[s] for s in both])


def _improvement(better: np.ndarray, than: np.ndarray) -> list[Entry]:
    """Compare two runs seed by seed."""
    found = stats.improvement_interval(better, than)
    return [number(found.value, 2), _interval(found, len(better), 2)]


def _interval(found: stats.Estimate, seeds: int, digits: int = 1) -> Entry:
    """Show an interval over seeds; one seed has none."""
    if seeds == 1:
        return Entry("one seed", found.low)
    return Entry(f"{found.low:.{digits}f} to {found.high:.{digits}f}", found.low)


def aggregate(study: Loaded) -> Table:
    """Return interquartile means over all runs and tasks of a domain, with intervals."""
    head = ["domain", "tasks from", "interquartile mean", "95 %", "mean", "seeds x strata", "runs"]
    body = []
    for domain in study.names("domain"):
        for sampler in study.names("sampler"):
            rows = study.pick(domain=domain, sampler=sampler)
            known = [row for row in rows if row.scores.size]
            tables = [row.scores for row in known]
            runs = Entry(f"{len(known)} of {len(rows)}", None, None, tuple(r.folder for r in known))
            if not tables:
                body.append([Entry(domain), Entry(sampler), *[Entry(MISSING, -math.inf)] * 4, runs])
                continue
            scores = np.concatenate(strata(tables), axis=1)
            iqm = stats.bootstrap(scores)
            body.append([Entry(domain), Entry(sampler), number(iqm.value),
                         _interval(iqm, len(scores)), number(float(stats.mean(scores))),
                         Entry(f"{scores.shape[0]} x {scores.shape[1]}", scores.size),
                         runs])  # fmt: skip
    title = "Over all encoders: each encoder and task is a stratum of the bootstrap"
    return Table(title, head, body)


def strata(tables: list[np.ndarray]) -> list[np.ndarray]:
    """Pad tables [seed, task] with nan to the same number of seeds."""
    most = max(len(table) for table in tables)
    return [np.pad(table, ((0, most - len(table)), (0, 0)), constant_values=np.nan)
            for table in tables]  # fmt: skip


def as_text(table: Table) -> str:
    """Return a table as text for a terminal."""
    rows = [table.head, *([entry.text for entry in row] for row in table.body)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.head))]
    lines = ["  ".join(f"{x:<{w}}" for x, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([table.title, *(line.rstrip() for line in lines)])
