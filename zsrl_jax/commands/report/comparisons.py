"""Tables that compare samplers over seeds: differences, tests, ratios, interquartile means.

Seed i of two samplers shares its collection and its encoder, so they are compared pair by pair. A
pair without a score on either side counts for neither.
"""

import math
from typing import NamedTuple

import numpy as np

from zsrl_jax.analysis import statistics as stats
from zsrl_jax.commands.report.load import Loaded, Row
from zsrl_jax.commands.report.stamps import brief, counts
from zsrl_jax.commands.report.tables import MISSING, Entry, Table, number, score_entry

UNIFORM = "uniform"
PAPER = {"btd": " (paper: 13 of 15 won)"}


class Pair(NamedTuple):
    """A sampler's cell beside that of uniform, over the seeds that both have."""

    domain: str
    encoder: str  # and what else tells the cell from others of its study
    uniform: Row | None
    other: Row | None
    units: list[int]  # collections, or seeds where there is one collection
    above: np.ndarray  # [unit] score above the random policy's
    below: np.ndarray  # [unit] that of uniform
    improvement: float


def comparisons(study: Loaded) -> list[Table]:
    """Return one table per sampler that compares it with uniform, cell by cell."""
    return [comparison(study, sampler) for sampler in _others(study)]


def _others(study: Loaded) -> list[str]:
    """Return the samplers that can be compared with uniform."""
    samplers = study.names("sampler")
    return [name for name in samplers if name != UNIFORM] if UNIFORM in samplers else []


def comparison(study: Loaded, sampler: str) -> Table:
    """Compare a sampler with uniform: difference, corrected test, ratio above the random policy."""
    head = ["domain", "encoder", UNIFORM, sampler, "difference", "95 %", "p", "p (Holm)", "outcome",
            f"({sampler} - random) / (uniform - random)", "95 %", f"P({sampler} > uniform)",
            "pairs"]  # fmt: skip
    pairs = pairs_of(study, sampler)
    known = [pair for pair in pairs if pair.units]
    corrected, count = corrected_of(study, sampler)
    body, outcomes, undefined = [], [], 0
    for pair in pairs:
        line = [Entry(pair.domain), Entry(pair.encoder), score_entry(pair.uniform),
                score_entry(pair.other)]  # fmt: skip
        if not pair.units:
            body.append([*line, *(Entry(MISSING, -math.inf) for _ in head[4:])])
            continue
        p = corrected.pop(0)
        outcomes.append(stats.outcome(float(np.mean(pair.above - pair.below)), p))
        undefined += float(np.mean(pair.below)) <= 0
        body.append([*line, *_numbers(pair, p, outcomes[-1])])
    if known:
        body.append(_all_cells(known, len(head)))
    title = f"{sampler} against uniform: {_counts(outcomes, len(pairs))}{PAPER.get(sampler, '')}; "
    title += f"paired t-tests, Holm's correction over the study's cells ({count}); "
    title += f"the ratio is undefined in {undefined} of {len(known)} cells (uniform not above "
    return Table(f"{title}random); {brief(study.rows)}", head, body)


def corrected_of(study: Loaded, sampler: str) -> tuple[list[float], int]:
    """Return p-values of a sampler's cells, corrected for all comparisons of a study, and those."""
    tests = [
        (name, stats.paired_test(pair.above - pair.below))
        for name in _others(study)
        for pair in pairs_of(study, name)
        if pair.units
    ]
    found = stats.holm([p for _, p in tests])
    own = [p for (name, _), p in zip(tests, found, strict=True) if name == sampler]
    return own, sum(math.isfinite(p) for p in found)


def pairs_of(study: Loaded, sampler: str) -> list[Pair]:
    """Return every cell of a sampler with the same cell of uniform."""
    found = []
    for domain in study.names("domain"):
        rows = [row for row in study.pick(domain=domain) if row.sampler in (UNIFORM, sampler)]
        cells: dict[str, list[Row]] = {}
        for row in rows:
            label = [row.encoder, *study.settings_of(row)]
            if study.axis and row.value is not None:
                label.append(f"{study.axis.split('.')[-1]} {row.value:g}")
            cells.setdefault(", ".join(label), []).append(row)
        found += [pair_of(domain, label, same, sampler) for label, same in cells.items()]
    return found


def pair_of(domain: str, label: str, rows: list[Row], sampler: str) -> Pair:
    """Return a cell of a sampler with that of uniform, over the seeds that both have."""
    uniform, other = (
        next((row for row in rows if row.sampler == name), None) for name in (UNIFORM, sampler)
    )
    nothing = Pair(domain, label, uniform, other, [], np.zeros(0), np.zeros(0), math.nan)
    if uniform is None or other is None or not other.results:
        return nothing
    a, b = other.by_seed(), uniform.by_seed()
    both = [(seed, unit) for seed, unit in zip(a, other.units(), strict=True) if seed in b]
    if not both:
        return nothing
    chance = float(np.mean(other.results["random"]))
    units = list(dict.fromkeys(unit for _, unit in both))
    above, below = (
        np.array([np.mean([scores[s] for s, u in both if u == unit]) for unit in units]) - chance
        for scores in (a, b)
    )
    won, lost = (np.stack([scores[s] for s, _ in both]) for scores in (a, b))
    share = stats.improvement(won, lost)
    return Pair(domain, label, uniform, other, units, above, below, share)


def _numbers(pair: Pair, p: float, outcome: str) -> list[Entry]:
    """Show a pair's difference, tests, outcome and ratio."""
    difference = pair.above - pair.below
    return [
        *estimate(stats.interval(difference)),
        *(_p_value(value) for value in (stats.paired_test(difference), p)),
        Entry(outcome),
        *estimate(stats.ratio(pair.above, pair.below), 2),
        number(pair.improvement, 2),
        Entry(str(len(pair.units)), len(pair.units)),
    ]


def common_units(pairs: list[Pair]) -> list[int]:
    """Return the units that all cells have."""
    return [unit for unit in pairs[0].units if all(unit in pair.units for pair in pairs)]


def over_cells(pairs: list[Pair], units: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return [unit] means over cells, above the random policy: of a sampler, and of uniform."""
    above, below = (
        np.mean([[getattr(pair, side)[pair.units.index(unit)] for unit in units] for pair in pairs],
                axis=0)
        for side in ("above", "below")
    )  # fmt: skip
    return above, below


def _all_cells(known: list[Pair], width: int) -> list[Entry]:
    """Show all cells as one: the means over cells of each unit that all of them have."""
    units = common_units(known)
    line = [Entry("all"), Entry(f"{len(known)} cells")]
    if not units:
        return [*line, *(Entry(MISSING, -math.inf) for _ in range(width - 2))]
    above, below = over_cells(known, units)
    won = float(np.mean([pair.improvement for pair in known]))
    whole = known[0]._replace(units=units, above=above, below=below, improvement=won)
    return [*line, Entry(""), Entry(""), *_numbers(whole, math.nan, "")]


def _counts(outcomes: list[str], cells: int) -> str:
    """Return how often each outcome was found, and how many cells are missing."""
    words = {stats.WIN: "wins", stats.LOSS: "losses", stats.OPEN: "undecided"}
    number = {word: outcomes.count(word) for word in words}
    told = [f"{number[w]} {w if number[w] == 1 else many}" for w, many in words.items()]
    if single := outcomes.count(stats.ONE_SEED):
        told.append(f"{single} of one seed")
    if len(outcomes) < cells:
        told.append(f"{cells - len(outcomes)} missing")
    return ", ".join(told)


def _p_value(p: float) -> Entry:
    if math.isnan(p):
        return Entry("", -math.inf)
    return Entry(f"{p:.3f}" if p >= 0.001 else "< 0.001", p)


def estimate(found: stats.Estimate, digits: int = 1) -> list[Entry]:
    """Show a number and its interval: one seed has none, a divisor of noise has no bounds."""
    if math.isnan(found.value):
        return [Entry("undefined", -math.inf)] * 2
    if math.isnan(found.low):
        told = stats.ONE_SEED
    elif math.isinf(found.low):
        told = "unbounded"
    else:
        told = f"{found.low:.{digits}f} to {found.high:.{digits}f}"
    low = found.low if math.isfinite(found.low) else -math.inf
    return [number(found.value, digits), Entry(told, low)]


def aggregate(study: Loaded) -> Table:
    """Return interquartile means over the runs of all encoders of a domain, with intervals."""
    head = ["domain", "tasks from", "interquartile mean", "95 %", "mean return",
            "runs (encoders x seeds)", "cells"]  # fmt: skip
    body = []
    for domain in study.names("domain"):
        for sampler in study.names("sampler"):
            rows = study.pick(domain=domain, sampler=sampler)
            known = [row for row in rows if row.scores.size]
            folders = tuple(run.folder for row in known for run in row.runs() if run.results)
            cells = Entry(f"{len(known)} of {len(rows)}", None, None, folders)
            line = [Entry(domain), Entry(sampler)]
            if not known:
                body.append([*line, *(Entry(MISSING, -math.inf) for _ in range(4)), cells])
                continue
            scores = np.concatenate([_normalised(row) for row in known])
            units = [unit for row in known for unit in row.units()]
            middle = stats.interval(scores, units, stats.interquartile_mean)
            returns = float(np.mean([mean for row in known for mean in row.scores.mean(axis=1)]))
            runs = Entry(f"{len(scores)} ({len(known)} x {len(set(units))})", len(scores))
            body.append([*line, *estimate(middle, 3), number(returns), runs, cells])
    title = (
        "Interquartile mean over runs (a run is one seed of one encoder) of the normalised score"
    )
    title += ", (return - random) / (1000 - random), mean over tasks"
    return Table(f"{title}; {brief(study.rows)}", head, body)


def _normalised(row: Row) -> np.ndarray:
    random = (row.results or {})["random"]
    return stats.normalised(row.scores, np.mean(random, axis=1))


def variance_note(study: Loaded) -> str:
    """Say how much of the variance of scores comes from data and how much from training."""
    rows = [row for row in study.rows if row.kind == "score" and len(row.scores) > 1]
    split = [stats.variance(row.scores.mean(axis=1), row.units()) for row in rows]
    found = [each for each in split if each is not None]
    if not found:
        several = any(len(set((row.results or {}).get("collections", ()))) > 1 for row in rows)
        why = "a collection has one seed" if several else "all seeds share one collection"
        return (
            "How much of the variance over seeds comes from data and how much from training cannot "
            f"be told: {why}. It takes several of both, such as --seeds=6 --collections=3."
        )
    data = max(0.0, float(np.mean([each.data for each in found])))
    training = float(np.mean([each.training for each in found]))
    if data + training == 0:
        return "Scores do not vary over seeds or collections."
    share = 100 * data / (data + training)
    return (
        f"Of the variance of a cell's score, {share:.0f} % comes from data (deviation "
        f"{math.sqrt(data):.1f} between collections) and {100 - share:.0f} % from training "
        f"(deviation {math.sqrt(training):.1f} within one); a mean over {len(found)} cells of "
        f"{counts(rows, 'collections')} collections."
    )
