"""What a run leaves behind: train a config, score it, and write results.json beside its saves."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from zsrl_jax import Dataset, Scores, evaluate, provenance, resume, train
from zsrl_jax.checkpoint import write_text
from zsrl_jax.divergence import Failure


def complete(
    config: ConfigDict,
    dataset: Dataset,
    workdir: Path,
    command: list[str],
    quiet: bool = False,
    force: bool = False,
) -> tuple[Scores | None, dict[str, Any]]:
    """Run every stage that is not done yet, score the agent, and return what to write."""
    return score(train(config, dataset, workdir, quiet, force), dataset, command, quiet)


def score(
    agent: Any, dataset: Dataset, command: list[str], quiet: bool = False
) -> tuple[Scores | None, dict[str, Any]]:
    """Score the agent of a finished run, and return what to write."""
    config, workdir, start = agent.config, agent.workdir, time.monotonic()
    section, scores = config.evaluate, None
    if agent.domain is not None:
        scores = evaluate(agent, episodes=section.episodes, seed=section.seed, progress=not quiet)
    seconds = json.loads((workdir / "seconds.json").read_text())
    seconds["evaluate"] = time.monotonic() - start
    failed = resume.failed(workdir)
    if scores and failed:
        scores = scores.without({failure.seed - config.seed for failure in failed.values()})
    results = describe_scores(scores) | describe(config, dataset, command)
    results["failed"] = [failure._asdict() for failure in failed.values()]
    return scores, results | {"forced": resume.forced(workdir), "seconds": seconds}


def write(workdir: Path, results: dict[str, Any]) -> Path:
    """Write results.json, with timings rounded and summed; it appears whole or not at all."""
    seconds = {stage: round(spent, 1) for stage, spent in results["seconds"].items()}
    seconds["total"] = round(sum(seconds.values()), 1)
    file = workdir / "results.json"
    write_text(file, json.dumps(results | {"seconds": seconds}, indent=1, allow_nan=False))
    return file


def describe_scores(scores: Scores | None) -> dict[str, Any]:
    """Return the scores and how well tasks were prompted; none where there is no simulator."""
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
    }


def describe(config: ConfigDict, dataset: Dataset, command: list[str]) -> dict[str, Any]:
    """Return what a result must carry besides: where it comes from, and its command."""
    return provenance.describe(config, dataset) | {"command": command}


def tell_failed(results: dict[str, Any]) -> str:
    """Say which seeds failed, and where."""
    return "; ".join(str(Failure(**failure)) for failure in results["failed"])


def finite(values: np.ndarray) -> list:
    """Return nested lists with None where a value is not a number, which JSON does not know."""
    table = np.asarray(values).astype(object)
    table[~np.isfinite(values)] = None
    return table.tolist()
