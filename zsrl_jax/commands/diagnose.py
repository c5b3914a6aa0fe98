"""Draw how runs trained: python -m experiments.diagnose RUN [RUN ...] --plot=diagnosis.png

A panel for each metric that runs logged (mean over seeds), a curve a run; the last values are
printed beside each other.
"""

import json
import math
from pathlib import Path

import numpy as np
from absl import flags

from zsrl_jax.commands import cli
from zsrl_jax.errors import ConfigError, DataError

PLOT = flags.DEFINE_string("plot", None, "picture to write (.png, .svg, .pdf)")
METRICS = flags.DEFINE_list("metrics", [], "which metrics, such as encoder/loss; default all")
COLUMNS = 4
Curves = dict[str, tuple[np.ndarray, np.ndarray]]  # metric -> steps, values


def read_curves(workdir: Path) -> Curves:
    """Read every metric of a run, averaged over its seeds; a line cut off by a kill is left out."""
    file = workdir / "metrics.jsonl"
    if not file.exists():
        raise DataError(f"'{workdir}' has no metrics.jsonl: expected the folder of a run")
    points: dict[str, list[tuple[int, float]]] = {}
    for text in file.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        for name, values in line.items():
            if "/" in name:
                mean = float(np.mean([float(value) for value in values]))
                points.setdefault(name, []).append((line["step"], mean))
    return {name: tuple(np.array(found).T) for name, found in points.items()}  # type: ignore[misc]


def choose(runs: dict[str, Curves], wanted: list[str]) -> list[str]:
    """Return the metrics to show: those asked for, or all that any run logged, by stage."""
    known = {name for curves in runs.values() for name in curves}
    if missing := [name for name in wanted if name not in known]:
        raise ConfigError(f"no run logged '{missing[0]}': known are {', '.join(sorted(known))}")
    return wanted or sorted(known)


def table(runs: dict[str, Curves], names: list[str]) -> str:
    """Draw the last value of every metric, a column a run."""
    width = max(len(name) for name in names) + 2
    columns = {run: max(len(run) + 2, 12) for run in runs}
    rows = [" " * width + "".join(f"{run:>{size}}" for run, size in columns.items())]
    for name in names:
        row = f"{name:<{width}}"
        for run, size in columns.items():
            last = f"{runs[run][name][1][-1]:.4g}" if name in runs[run] else "-"
            row += f"{last:>{size}}"
        rows.append(row)
    return "\n".join(rows)


def draw(runs: dict[str, Curves], names: list[str], out: Path) -> None:
    """Draw a panel a metric, a curve a run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    drawn = [n for n in names if any(len(c.get(n, ((),))[0]) > 1 for c in runs.values())]
    if not drawn:
        raise DataError("no metric was logged twice: there is no curve to draw")
    rows = math.ceil(len(drawn) / COLUMNS)
    size = (3.2 * min(COLUMNS, len(drawn)), 2.3 * rows + 0.4)
    figure, axes = pyplot.subplots(
        rows, min(COLUMNS, len(drawn)), figsize=size, squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes.flat, drawn, strict=False):
        for run, curves in runs.items():
            if name in curves:
                axis.plot(*curves[name], linewidth=1.2, label=run)
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.xaxis.set_major_locator(ticker.MaxNLocator(4))
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    lines = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(out, dpi=110)
    pyplot.close(figure)


def main(argv) -> None:
    """Read the runs, print their last metrics, draw their curves."""
    if len(argv) < 2:
        raise ConfigError("no run folder: expected python -m experiments.diagnose RUN [RUN ...]")
    folders = [Path(word) for word in argv[1:]]
    runs = {folder.name: read_curves(folder) for folder in folders}
    if len(runs) < len(folders):
        raise ConfigError("two run folders have one name: expected different ones")
    names = choose(runs, METRICS.value)
    print(table(runs, names))
    if PLOT.value:
        draw(runs, names, Path(PLOT.value))
        print(f"drawn: {PLOT.value}")


if __name__ == "__main__":
    cli.run(main)
