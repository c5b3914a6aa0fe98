"""Learning curves: score against updates for any set of runs, from evaluations during training."""

import json
from pathlib import Path

import numpy as np

from experiments.report.figures import CYCLE, MARKERS, Chart, finish, panels
from experiments.report.load import Row, read_results
from zsrl_jax.errors import DataError


def find(root: Path) -> list[tuple[Row, list[tuple[int, list[float]]]]]:
    """Return the runs under a folder that were scored while they trained, with their points."""
    found = []
    for file in sorted(root.rglob("metrics.jsonl")):
        points = read_points(file)
        if points:
            row = Row("", "", "", {}, None, file.parent, "", read_results(file.parent))
            found.append((row, points))
    if not found:
        raise DataError(
            f"no run under '{root}' was scored during training: run with --config.evaluate.every=N"
        )
    return found


def read_points(file: Path) -> list[tuple[int, list[float]]]:
    """Return (update, score by seed) of a run's metrics."""
    points = {}
    for text in file.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue  # the last line of a run that was cut off
        if "evaluate/mean" in line:
            points[line["step"]] = [float(value) for value in line["evaluate/mean"]]
    return sorted(points.items())


def draw(root: Path) -> Chart:
    """Draw the mean over seeds of every run, with a line for each seed behind it."""
    runs = find(root)
    figure, (axis,) = panels(1, width=7.0, height=4.0)
    for i, (row, points) in enumerate(runs):
        steps = [step for step, _ in points]
        scores = np.array([values for _, values in points])
        shade = CYCLE[i % len(CYCLE)]
        if scores.shape[1] > 1:
            axis.plot(steps, scores, color=shade, alpha=0.3, linewidth=0.7)
        label = str(row.folder.relative_to(root)) if row.folder != root else row.folder.name
        label += "" if row.results else " (unfinished)"
        axis.plot(steps, scores.mean(axis=1), color=shade, marker=MARKERS[i % len(MARKERS)],
                  markersize=4, label=label)  # fmt: skip
    axis.set_xlabel("policy updates")
    axis.set_ylabel("mean return over tasks")
    axis.legend(fontsize=7, frameon=False)
    caption = "Score against policy updates; thin lines: single seeds."
    return finish("curves", caption, figure, [row for row, _ in runs])
