"""Is a run healthy? The rules of docs/diagnostics.md, as data: what `diagnose` and `report` say.

A rule looks at the curves of one metric. It is left out where a run did not log that metric. A
verdict is `good`, `watch` (unusual, look at the reason) or `bad` (expect a weak agent).
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

GOOD, WATCH, BAD = "good", "watch", "bad"
Curves = Mapping[str, tuple[np.ndarray, np.ndarray]]  # metric -> steps, values
LATE = 0.25  # the last quarter of a curve tells whether it has levelled off


class Verdict(NamedTuple):
    """What a rule says of a run: a word, the numbers, and what to do."""

    metric: str
    state: str
    text: str

    def __str__(self) -> str:
        """Return the verdict in one line."""
        return f"{self.state:<6}{self.metric}: {self.text}"


class Rule(NamedTuple):
    """A metric and how it is judged: (last value, limits) -> state; `advice` if it is not good."""

    metric: str
    judge: Callable[["Run"], tuple[str, str] | None]
    advice: str


class Run(NamedTuple):
    """What rules see of a run."""

    curves: Curves
    config: Mapping[str, Any]
    results: Mapping[str, Any]

    def last(self, metric: str) -> float:
        """Return a metric's last value; nan if it was not logged."""
        return float(self.curves[metric][1][-1]) if metric in self.curves else math.nan

    def growth(self, metric: str) -> float:
        """Return by which share a metric grew over the last quarter of its curve."""
        values = self.curves[metric][1]
        before = float(values[int(len(values) * (1 - LATE)) - 1]) if len(values) >= 8 else math.nan
        return float(values[-1]) / before - 1 if before else math.nan

    def field(self, path: str, default: Any = None) -> Any:
        """Return a field of the config."""
        found: Any = self.config
        for name in path.split("."):
            if name not in found:
                return default
            found = found[name]
        return found


def _rank(run: Run) -> tuple[str, str]:
    rank, dim = run.last("encoder/effective_rank"), run.field("encoder.dim", 0)
    state = BAD if rank < 2 else WATCH if rank < min(5, dim / 2) else GOOD
    return state, f"{rank:.1f} of {dim} dimensions used"


def _orthonormality(run: Run) -> tuple[str, str] | None:
    if not run.field("encoder.orthonormality", 1.0):
        return None
    value, dim = run.last("encoder/orthonormality"), run.field("encoder.dim", 0)
    return WATCH if value > -dim / 2 else GOOD, f"{value:.1f} (orthonormal: {-dim})"


def _r2(run: Run) -> tuple[str, str] | None:
    found = {name: run.last(name) for name in run.curves if name.startswith("encoder/r2_")}
    if not found:
        return None
    least, mean = min(found, key=lambda name: found[name]), float(np.mean(list(found.values())))
    state = WATCH if mean < 0.5 else GOOD  # never bad: behaviours may be told apart all the same
    task = least.removeprefix("encoder/r2_")
    return state, f"{mean:.2f} on average, least {found[least]:.2f} ({task})"


def _likelihood(run: Run) -> tuple[str, str]:
    seen, unseen = run.last("tasks/log_likelihood"), run.last("tasks/unseen_log_likelihood")
    gap, dim = seen - unseen, run.field("encoder.dim", 50)
    return WATCH if gap > max(10.0, dim / 2) else GOOD, f"{gap:.1f} nats below the fitted ones"


def _q(run: Run) -> tuple[str, str] | None:
    grown = run.growth("policy/q_abs")
    if not math.isfinite(grown):
        return None
    state = BAD if grown > 1.0 else WATCH if grown > 0.3 else GOOD
    return state, f"{run.last('policy/q_abs'):.4g}, {grown:+.0%} over the last quarter"


def _critic(run: Run) -> tuple[str, str]:
    loss, scale = run.last("policy/critic_loss"), run.last("policy/q_abs") ** 2
    share = loss / scale if scale else math.nan
    return WATCH if share > 0.25 else GOOD, f"{share:.3f} of q_abs² is not explained"


def _saturated(run: Run) -> tuple[str, str]:
    share, light = run.last("policy/saturated"), run.field("policy.behaviour", 0) > 0
    limit = 0.15 if light else 0.8
    return WATCH if share > limit else GOOD, f"{share:.2f} of the action entries at their bounds"


def _behaviour(run: Run) -> tuple[str, str] | None:
    if not run.field("policy.behaviour", 0):
        return None
    value = run.last("policy/behaviour")
    if value < 0.02:
        return WATCH, f"{value:.2f}: the policy copies the data"
    return (WATCH, f"{value:.2f}: the policy has left the data") if value > 0.9 else (
        GOOD, f"{value:.2f} from the data's actions")  # fmt: skip


def _mean_score(run: Run) -> tuple[str, str] | None:
    values = run.curves["evaluate/mean"][1] if "evaluate/mean" in run.curves else ()
    if len(values) < 3:
        return None
    best, now = float(np.max(values)), float(np.mean(values[-2:]))
    return WATCH if now < 0.6 * best else GOOD, f"{now:.0f} now, {best:.0f} at its best"


def _random(run: Run) -> tuple[str, str] | None:
    returns = run.results.get("returns")
    if not returns or not run.results.get("random"):
        return None
    played = np.array(returns, np.float64).mean(axis=(0, 2))
    chance = np.array(run.results["random"], np.float64).mean(axis=1)
    names = run.results.get("tasks", range(len(played)))
    lost = [str(n) for n, p, c in zip(names, played, chance, strict=False) if not p > c]
    state = GOOD if not lost else BAD if len(lost) == len(played) else WATCH
    told = f"{np.nanmean(played):.0f} against {chance.mean():.0f} of the random policy"
    return state, told + (f"; not above it: {', '.join(lost)}" if lost else "")


def _cosine(run: Run) -> tuple[str, str] | None:
    found = [x for row in run.results.get("cosine") or () for x in row if x is not None]
    if not found:
        return None
    least = min(found)
    return BAD if least < 0.5 else WATCH if least < 0.7 else GOOD, f"least {least:.2f}"


def _failed(run: Run) -> tuple[str, str] | None:
    failed = run.results.get("failed")
    return (BAD, f"{len(failed)} seed(s) became NaN or infinite") if failed else None


RULES = (
    Rule("encoder/effective_rank", _rank,
         "the features have collapsed: raise encoder.orthonormality, or lower encoder.target_rate "
         "of byol and byol_gamma"),
    Rule("encoder/orthonormality", _orthonormality,
         "features correlate: more encoder.orthonormality, or a larger encoder.batch"),
    Rule("encoder/r2", _r2,
         "rewards are not linear in the features, which alone decides no score: if scores are low "
         "too, another encoder, a larger encoder.dim, more encoder.updates, or wider data"),
    Rule("tasks/unseen_log_likelihood", _likelihood,
         "the mixture overfits: fewer tasks.num_components, or more tasks.num_subtrajectories"),
    Rule("policy/q_abs", _q,
         "values still grow: raise policy.behaviour, set policy.head_norm, or lower "
         "policy.learning_rate"),
    Rule("policy/critic_loss", _critic,
         "the critic explains little: more policy.updates or width, policy.successor=1"),
    Rule("policy/saturated", _saturated,
         "actions are at their bounds: as for growing values"),
    Rule("policy/behaviour", _behaviour,
         "lower policy.behaviour if the policy copies, raise it if it has left the data"),
    Rule("evaluate/mean", _mean_score,
         "scores fell: look at policy/q_abs"),
    Rule("prompts' cosine", _cosine,
         "prompts lie far from the data's tasks: infer.nearest or infer.behaviours, or wider data"),
    Rule("score", _random,
         "the robot may stand still: look at the prompts (diagnose --prompts) and at the data"),
    Rule("seeds", _failed,
         "lower the learning rate of the stage that failed"),
)  # fmt: skip


def examine(
    curves: Curves, config: Mapping[str, Any], results: Mapping[str, Any] | None = None
) -> list[Verdict]:
    """Return what the rules say of a run, in the order of its stages."""
    run, found = Run(curves, config, results or {}), []
    for rule in RULES:
        named = "/" in rule.metric and rule.metric not in ("encoder/r2",)
        if named and rule.metric not in curves:
            continue
        if named and not math.isfinite(run.last(rule.metric)):
            found.append(Verdict(rule.metric, BAD, f"not finite; {rule.advice}"))
            continue
        judged = rule.judge(run)
        if judged is not None:
            state, told = judged
            advice = "" if state == GOOD else f"; {rule.advice}"
            found.append(Verdict(rule.metric, state, told + advice))
    return found


def summary(verdicts: Iterable[Verdict]) -> str:
    """Return all verdicts in one sentence."""
    states = [verdict.state for verdict in verdicts]
    if not states:
        return "no metrics to judge"
    if BAD in states:
        return f"not healthy: {states.count(BAD)} of {len(states)} checks are bad"
    if WATCH in states:
        return f"mostly healthy: {states.count(WATCH)} of {len(states)} checks are unusual"
    return f"healthy: all {len(states)} checks are good"
