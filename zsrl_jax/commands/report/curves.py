"""Learning curves: score against updates for any set of runs, from evaluations during training."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zsrl_jax.commands.report.figures import CYCLE, Chart, finish, legend, line, panels
from zsrl_jax.commands.report.load import Row, read_results
from zsrl_jax.errors import DataError
from zsrl_jax.runs import provenance
from zsrl_jax.training import metrics

DASHES = ("-", "--", ":", "-.")
Points = list[tuple[int, list[float]]]


def find(roots: Sequence[Path]) -> list[tuple[Row, Points]]:
    """Return the runs under folders that were scored during training, with their points."""
    found = {}
    for file in sorted(file for root in roots for file in root.rglob(metrics.FILE)):
        folder, points = file.parent, read_points(file.parent)
        if points:
            results = read_results(folder)
            started = read_results(folder, provenance.FILE)
            domain = (results or started or {"config": {"domain": ""}})["config"]["domain"]
            row = Row(domain, "", "", {}, None, folder, "", results, started=started)
            found[folder] = row, points
    if not found:
        told = ", ".join(f"'{root}'" for root in roots)
        raise DataError(
            f"no run under {told} was scored during training: run with --config.evaluate.every=N"
        )
    return list(found.values())


def read_points(folder: Path) -> Points:
    """Return (update, score by seed) of a run's metrics."""
    points = {}
    for row in metrics.read(folder):
        if "evaluate/mean" in row:
            points[row["step"]] = [float(value) for value in row["evaluate/mean"]]
    return sorted(points.items())


def draw(roots: Sequence[Path]) -> Chart:
    """Draw a panel per domain: the mean over seeds of every run, and thin lines for seeds."""
    runs = find(roots)
    domains = list(dict.fromkeys(row.domain for row, _ in runs))
    names = _names([row.folder for row, _ in runs])
    room = 0.6 + 0.075 * max(map(len, names))
    figure, axes = panels(len(domains), width=max(4.0, 6.0 / len(domains)), room=room)
    keys = []
    for i, ((row, points), name) in enumerate(zip(runs, names, strict=True)):
        axis = axes[domains.index(row.domain)]
        steps, scores = [step for step, _ in points], np.array([values for _, values in points])
        shade, dash = CYCLE[i % len(CYCLE)], DASHES[i // len(CYCLE) % len(DASHES)]
        if scores.shape[1] > 1:
            axis.plot(steps, scores, dash, color=shade, alpha=0.35, linewidth=0.7)
        axis.plot(steps, scores.mean(axis=1), dash, color=shade, marker="o", markersize=3.5)
        keys.append(line(name if row.results else f"{name}\n(unfinished)", shade, dash))
    for axis, domain in zip(axes, domains, strict=True):
        axis.set(xlabel="policy updates", title=domain)
        axis.set_ylim(0, max(axis.get_ylim()[1], 1.0))
    axes[0].set_ylabel("mean return over tasks")
    legend(figure, keys)
    caption = "Score against policy updates; thin lines: single seeds."
    return finish("curves", caption, figure, [row for row, _ in runs], "runs unfinished")


def _names(folders: list[Path]) -> list[str]:
    """Name runs by their folders: the last part, or more where that is not enough."""
    short = [folder.absolute().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]
