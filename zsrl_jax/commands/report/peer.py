"""A peer's table, FB in PyTorch (`benchmarks.torch_peer`), beside our cell of the main study."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.analysis import statistics as stats
from zsrl_jax.commands.report.load import Loaded
from zsrl_jax.errors import DataError

OURS = {"domain": "cheetah", "encoder": "fb", "sampler": "btd"}  # the cell that is compared
PEER = ("seed", "start", "minutes", "updates", "tasks", "returns", "data")  # what its lines hold


def read_peer(folder: Path) -> list[dict[str, Any]]:
    """Read the lines of `benchmarks.torch_peer`, if there are any; the last of each run counts."""
    file = folder / "peer.jsonl"
    if not file.exists():
        return []
    try:
        lines = [json.loads(line) for line in file.read_text().splitlines() if line]
        return list({(line["data"], line["seed"]): line for line in lines if _whole(line)}.values())
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"'{file}' is damaged ({type(error).__name__}: {error}): expected lines that "
            "benchmarks.torch_peer wrote"
        ) from error


def _whole(line: dict[str, Any]) -> bool:
    """Look up every fact of a peer's line; a missing one is a KeyError."""
    return all(line[name] is not None for name in PEER)


def peer_lines(main: Loaded | None, peers: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of the peer beside our cell: the same data and starts, equal minutes."""
    rows = main.pick(**OURS) if main else []
    if not peers or not rows:
        return []
    own = {run.results["data"]["fingerprint"]: run for run in rows[0].runs() if run.results}
    head = ["seed", "PyTorch FB", "minutes", "updates", "zsrl_jax fb, btd", "minutes", "difference"]
    lines, theirs, ours = [], [], []
    for peer in peers:
        run = own.get(peer["data"])
        if run is None or not run.results or not run.scores.size or not _same(peer, run.results):
            continue
        seconds = sum(run.results["seconds"][stage] for stage in ("encoder", "tasks", "policy"))
        theirs.append(float(np.mean(peer["returns"])))
        ours.append(run.mean)
        minutes, updates = f"{peer['minutes']:g}", f"{peer['updates']:,}"
        scores = f"{theirs[-1]:.0f}", f"{ours[-1]:.0f}", f"{ours[-1] - theirs[-1]:.0f}"
        lines.append(
            line_of([peer["seed"], scores[0], minutes, updates, scores[1], f"{seconds / 60:.1f}",
                   scores[2]])
        )  # fmt: skip
    if not lines:
        return []
    difference = np.array(ours) - np.array(theirs)
    mean = stats.interval(difference)
    told = f"Mean {np.mean(ours):.0f} against {np.mean(theirs):.0f}, difference {mean.value:.0f}"
    if math.isfinite(mean.low):
        told += f" ({interval_words(mean)}, p {p_words(difference)})"
    about = (
        "The field's one-stage FB with its own actor, in PyTorch, on the same collections, scored "
        "on the same tasks, starts and simulator (`benchmarks/torch_peer.py`). One core each."
    )
    return ["## A peer: FB in PyTorch, equal minutes", "", about, "", line_of(head),
            "|" + "---|" * len(head), *lines, "", f"{told}.", ""]  # fmt: skip


def _same(peer: dict[str, Any], results: dict[str, Any]) -> bool:
    """Tell whether a peer was scored on a run's tasks and starts."""
    starts = results["config"]["evaluate"]["seed"] == peer["start"]
    return bool(starts and results["tasks"] == peer["tasks"])


def interval_words(found: stats.Estimate) -> str:
    """Return a 95 % interval in words."""
    return f"95 %: {found.low:.0f} to {found.high:.0f}"


def p_words(difference: np.ndarray) -> str:
    """Return the p-value of paired differences in words."""
    p = stats.paired_test(difference)
    return f"= {p:.2g}" if p >= 0.001 else "< 0.001"


def line_of(values: Sequence[Any]) -> str:
    """Return a row of a table whose texts are Markdown already."""
    return "| " + " | ".join(map(str, values)) + " |"
