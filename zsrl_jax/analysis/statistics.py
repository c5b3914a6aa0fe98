"""Statistics of scores of a few runs, with intervals; numpy only, the same numbers on every call.

    interquartile mean          the mean of all scores without the lowest and the highest quarter
    stratified bootstrap        runs are drawn anew, with replacement, within each task
    probability of improvement  mean over tasks of P(X > Y) + P(X = Y) / 2
    performance profile         share of scores above tau, as a function of tau

The definitions are those of Agarwal et al., Deep RL at the Edge of the Statistical Precipice
(2021). Scores are [run, task], nan where a task has fewer runs than others. One departure: `paired`
compares run i only with run i, because seed i of two samplers shares its encoder, data and batches;
without it all pairs count, as in their paper. Also as there, runs are drawn for each task
separately: if the scores of a seed's tasks rise and fall together (one policy serves them all), the
interval of their mean is too narrow.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

REPETITIONS = 2000


class Estimate(NamedTuple):
    """A number with its interval."""

    value: float
    low: float
    high: float


def mean_spread(scores: Float[np.ndarray, "run ..."]) -> tuple[float, float]:
    """Return the mean over everything and the sample deviation over runs; nan for one run."""
    runs = np.asarray(scores, np.float64).reshape(len(scores), -1).mean(axis=1)
    return float(runs.mean()), float(runs.std(ddof=1)) if len(runs) > 1 else float("nan")


def mean(scores: Float[np.ndarray, "... run task"]) -> Float[np.ndarray, "..."]:
    """Return the mean over runs and tasks."""
    return np.nanmean(np.asarray(scores, np.float64), axis=(-2, -1))


def interquartile_mean(scores: Float[np.ndarray, "... run task"]) -> Float[np.ndarray, "..."]:
    """Return the mean of the middle half: floor(n / 4) scores are cut off at either end.

    If there are several tables, all must have the same number n of scores.
    """
    table = np.asarray(scores, np.float64)
    ordered = np.sort(table.reshape(*table.shape[:-2], -1), axis=-1)  # nan comes last
    count = int(np.isfinite(ordered).sum(axis=-1).max())
    cut = count // 4
    return ordered[..., cut : count - cut].mean(axis=-1)


def bootstrap(
    scores: Float[np.ndarray, "run task"],
    statistic: Callable[[np.ndarray], np.ndarray] = interquartile_mean,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> Estimate:
    """Return a statistic of [..., run, task] and its 95 % percentile interval."""
    scores = _table(scores)
    scores = np.take_along_axis(scores, np.isnan(scores).argsort(axis=0, kind="stable"), axis=0)
    runs = np.isfinite(scores).sum(axis=0)  # of each task; they come first in its column
    picks = np.random.default_rng(seed).integers(0, runs, (repetitions, *scores.shape))
    drawn = scores[picks, np.arange(scores.shape[1])[None, None]]
    drawn[:, np.isnan(scores)] = np.nan
    low, high = np.percentile(statistic(drawn), (2.5, 97.5))
    return Estimate(float(statistic(scores)), float(low), float(high))


def improvement(
    better: Float[np.ndarray, "run task"], than: Float[np.ndarray, "run task"], paired: bool = True
) -> float:
    """Return the probability that a run of `better` beats one of `than`; a tie counts half."""
    x, y = _table(better), _table(than)
    if paired:
        return float(np.mean(_wins(x - y)))
    return float(np.mean(_wins(x[:, None] - y[None])))


def improvement_interval(
    better: Float[np.ndarray, "run task"],
    than: Float[np.ndarray, "run task"],
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> Estimate:
    """Return the paired probability of improvement with its interval; pairs stay together."""
    return bootstrap(_wins(_table(better) - _table(than)), mean, repetitions, seed)


def profile(
    scores: Float[np.ndarray, "..."], taus: Float[np.ndarray, " tau"]
) -> Float[np.ndarray, " tau"]:
    """Return the share of scores above each tau."""
    flat = np.asarray(scores, np.float64).reshape(-1)
    flat = flat[np.isfinite(flat)]
    return np.mean(flat[None] > np.asarray(taus)[:, None], axis=1)


def gain(better: float, than: float) -> float:
    """Return by how many per cent one score is above another."""
    return 100.0 * (better / than - 1.0) if than > 0 else float("nan")


def outcome(better: Float[np.ndarray, " run"], than: Float[np.ndarray, " run"]) -> str:
    """Call a comparison win, tie or loss: a tie if the means differ by less than their error.

    The error is that of the difference of two means, sqrt(s1^2 / n1 + s2^2 / n2). With one run per
    side there is none, and only equal scores tie.
    """
    (m1, s1), (m2, s2) = mean_spread(better), mean_spread(than)
    error = np.sqrt(np.nan_to_num(s1) ** 2 / len(better) + np.nan_to_num(s2) ** 2 / len(than))
    if abs(m1 - m2) <= error:
        return "tie"
    return "win" if m1 > m2 else "loss"


def _wins(difference: np.ndarray) -> np.ndarray:
    return (difference > 0) + 0.5 * (difference == 0)


def _table(scores: np.ndarray) -> np.ndarray:
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 2 or scores.size == 0:
        raise ValueError(f"scores have shape {scores.shape}: expected (runs, tasks)")
    return scores
