"""The record of trials: every run that was made to choose something, failures too, one JSON line.

A line holds the name, what was set beside the preset, the data, the seeds of training and starts,
the scores by task and by number of updates, and the error of a trial that failed.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict

import zsrl_jax
from zsrl_jax.training import metrics
from zsrl_jax.training.pipeline import Finished

FILE = "docs/results/trials.jsonl"


@contextmanager
def recorded(
    name: str, file: Path, config: ConfigDict, command: list[str]
) -> Iterator[Callable[[Finished], None]]:
    """Append a line about the run inside: of what was `told` about it, or of its error."""
    start = time.time()
    line: dict[str, Any] = {
        "name": name,
        "version": zsrl_jax.__version__,
        "domain": config.domain,
        "set": [_setting(word) for word in command if word.startswith("--config.")],
        "config": next((word for word in command if word.startswith("--config=")), ""),
        "seed": config.seed,
        "start": config.evaluate.seed,
        "episodes": config.evaluate.episodes,
    }
    try:
        yield lambda finished: line.update(outcome(finished))
    except BaseException as error:
        line["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
        raise
    finally:
        line["seconds"] = round(time.time() - start)
        with file.open("a") as out:
            out.write(json.dumps(line) + "\n")


def _folder(source: str) -> str:
    """Return the name of the folder that holds a collection, of the path of its episodes."""
    path = Path(source.partition(":")[2])
    return path.parent.name if path.name == "buffer" else path.name


def _setting(word: str) -> str:
    """Return `field=value` of a flag; of a path that only one machine has, the last part."""
    field, _, value = word.removeprefix("--config.").partition("=")
    return f"{field}={Path(value).name if Path(value).is_absolute() else value}"


def outcome(finished: Finished) -> dict[str, Any]:
    """Return what a trial came to: mean returns by task, and by updates where it was scored."""
    found = finished.results
    told = {
        "data": _folder(found["data"]["source"]),
        "data_episodes": found["data"]["episodes"],
        "tasks": found["tasks"],
    }
    if not found["tasks"]:  # no simulator, so no scores
        return told
    returns = np.array(found["returns"], float)
    curve = {
        str(row["step"]): [
            round(float(np.mean(row[f"evaluate/{task}"]))) for task in found["tasks"]
        ]
        for row in metrics.read(finished.file.parent)
        if "evaluate/mean" in row
    }
    return told | {
        "r2": np.round(np.array(found["r2"], float).mean(axis=0), 3).tolist(),
        "data_mean": _rounded(found["data_mean"]),
        "data_best": _rounded(found["data_best"]),
        "scores": np.round(returns.mean(axis=(0, 2))).tolist(),
        "mean": round(float(returns.mean()), 1),
        "by_updates": curve,
    }


def _rounded(values: list[float] | None) -> list[float] | None:
    """Return whole numbers; None where the data has no physics, and so no scores of its own."""
    return None if values is None else np.round(values).tolist()
