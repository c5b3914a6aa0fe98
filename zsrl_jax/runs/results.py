"""A run's results.json: scores by seed, task and episode, and where they come from."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zsrl_jax.files.atomic import write_text
from zsrl_jax.runs import identity
from zsrl_jax.types import Failure

if TYPE_CHECKING:
    from zsrl_jax.evaluation import Scores

FILE = "results.json"


def describe_run(
    workdir: Path,
    scores: "Scores | None",
    origin: dict[str, Any],
    failed: Iterable[Failure],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Return all that results.json holds of a finished run; `origin` comes from `provenance`."""
    return (
        describe_scores(scores)
        | origin
        | {
            "failed": [failure._asdict() for failure in failed],
            "forced": identity.forced(workdir),
            "seconds": seconds,
        }
    )


def describe_scores(scores: "Scores | None") -> dict[str, Any]:
    """Return the scores and how well tasks were prompted; empty without a simulator."""
    if scores is None:
        return {"tasks": [], "returns": [], "random": []}
    return {
        "tasks": list(scores.tasks),
        "returns": finite(scores.returns),
        "random": scores.random.tolist(),
        "r2": finite(scores.r2),
        "ridge": finite(scores.ridge),
        "cosine": finite(scores.cosine),
        "diverged": list(scores.blown),
        "data_mean": None if scores.data_mean is None else scores.data_mean.tolist(),
        "data_best": None if scores.data_best is None else scores.data_best.tolist(),
    }


def write(workdir: Path, results: dict[str, Any]) -> Path:
    """Write results.json, with timings rounded and summed; it appears whole or not at all."""
    seconds = {stage: round(spent, 1) for stage, spent in results["seconds"].items()}
    seconds["total"] = round(sum(seconds.values()), 1)
    file = workdir / FILE
    write_text(file, json.dumps(results | {"seconds": seconds}, indent=1, allow_nan=False))
    return file


def tell_failed(results: dict[str, Any]) -> str:
    """Return which seeds failed, and where."""
    return "; ".join(str(Failure(**failure)) for failure in results["failed"])


def finite(values: np.ndarray) -> list:
    """Return nested lists, with None for NaN and infinity, which JSON does not have."""
    table = np.asarray(values).astype(object)
    table[~np.isfinite(values)] = None
    return table.tolist()
