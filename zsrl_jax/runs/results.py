"""A run's results.json: scores by seed, task and episode, and where they come from."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zsrl_jax.files.atomic import write_text
from zsrl_jax.runs import identity, provenance
from zsrl_jax.types import Failure

if TYPE_CHECKING:
    from zsrl_jax.data import Dataset
    from zsrl_jax.evaluation import Scores
    from zsrl_jax.training.run import Run

FILE = "results.json"


def describe_run(
    run: "Run",
    dataset: "Dataset",
    scores: "Scores | None",
    seconds: dict[str, float],
    command: list[str],
) -> dict[str, Any]:
    """Return the content of results.json of a finished run."""
    return (
        describe_scores(scores)
        | provenance.describe(run.config, dataset, run.fingerprint)
        | {
            "command": command,
            "failed": [failure._asdict() for failure in run.failed.values()],
            "forced": identity.forced(run.workdir),
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
