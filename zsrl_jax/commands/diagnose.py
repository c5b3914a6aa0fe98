"""Draw how runs trained: python -m experiments.diagnose RUN [RUN ...] --plot=diagnosis.png

One panel per metric that runs logged (mean over seeds), one curve per run; the last values are
printed beside each other, then what docs/diagnostics.md says of each run: good, watch or bad.

    python -m experiments.diagnose RUN --prompts

rolls out task vectors of the data, and tells what each test task's prompt gets of the best of them.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from zsrl_jax.agent import Agent
from zsrl_jax.analysis import health
from zsrl_jax.analysis.prompt_gap import Gap, measure
from zsrl_jax.commands import cli, usage_of
from zsrl_jax.errors import ConfigError, DataError
from zsrl_jax.runs import provenance, results
from zsrl_jax.runs.agent_files import load
from zsrl_jax.training import metrics
from zsrl_jax.training.data_source import open_data

PLOT = flags.DEFINE_string("plot", None, "picture to write (.png, .svg, .pdf)", allow_override=True)
METRICS = flags.DEFINE_list("metrics", [], "metrics to show, such as encoder/loss; default: all")
PROMPTS = flags.DEFINE_bool("prompts", False, "measure what prompts get of what the policy can do")
MEMBER = flags.DEFINE_integer(  # other commands have this flag too, in one process of tests
    "member", 0, "--prompts: which training seed of the run", allow_override=True
)
TRIED = flags.DEFINE_integer("tried", 128, "--prompts: task vectors rolled out", 1)
COLUMNS = 4
Curves = dict[str, tuple[np.ndarray, np.ndarray]]  # metric -> steps, values


def read_curves(workdir: Path) -> Curves:
    """Read every metric of a run, averaged over its seeds; a line cut off by a kill is left out."""
    if not (workdir / metrics.FILE).exists():
        raise DataError(f"'{workdir}' has no {metrics.FILE}: expected the folder of a run")
    return metrics.curves(workdir)


def choose(runs: dict[str, Curves], wanted: list[str]) -> list[str]:
    """Return the metrics to show: those asked for, or all that any run logged, by stage."""
    known = {name for curves in runs.values() for name in curves}
    if missing := [name for name in wanted if name not in known]:
        raise ConfigError(f"no run logged '{missing[0]}': known: {', '.join(sorted(known))}")
    return wanted or sorted(known)


def table(runs: dict[str, Curves], names: list[str]) -> str:
    """Draw the last value of every metric, one column per run."""
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
    """Draw one panel per metric, one curve per run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    drawn = [n for n in names if any(len(c.get(n, ((),))[0]) > 1 for c in runs.values())]
    if not drawn:
        raise DataError("no metric has two values: expected runs that logged at least twice")
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
        axis.set_xlabel("update", fontsize=7)
        axis.set_ylabel(name.partition("/")[2], fontsize=7)
        axis.tick_params(labelsize=7)
        axis.xaxis.set_major_locator(ticker.MaxNLocator(4))
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    lines = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(out, dpi=110)
    pyplot.close(figure)


def health_of(folder: Path, curves: Curves) -> str:
    """Return what the rules of health say of a run: a sentence, then one line per rule."""
    found = {name: read_json(folder / name) for name in (results.FILE, provenance.FILE)}
    told = found[results.FILE] or found[provenance.FILE] or {}
    verdicts = health.examine(curves, told.get("config", {}), found[results.FILE])
    return "\n".join([health.summary(verdicts), *map(str, verdicts)])


def read_json(file: Path) -> dict[str, Any] | None:
    """Read a JSON file of a run folder; None if there is none, or a damaged one."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None


def prompt_gap(folder: Path) -> Gap:
    """Measure how much of what a run's policy can do its prompts get out of it."""
    agent = load(folder)
    if not isinstance(agent, Agent):
        raise ConfigError(f"'{folder}' holds an oracle, which has no prompts: expected an agent")
    if not 0 <= MEMBER.value < agent.num_seeds:
        raise ConfigError(f"--member={MEMBER.value}: the run has {agent.num_seeds} seed(s)")
    try:
        dataset = open_data(agent.config, quiet=True, collect_missing=False)
    except DataError as error:
        print(f"data: not found, so its best pieces are not shown ({error})")
        dataset = None
    return measure(agent, dataset, MEMBER.value, TRIED.value)


def main(argv: list[str]) -> None:
    """Read the runs, print their last metrics, draw their curves."""
    if len(argv) < 2:
        raise ConfigError(f"no run folder: expected {usage_of('diagnose', 'RUN [RUN ...]')}")
    folders = [Path(word) for word in argv[1:]]
    cli.check_picture("--plot", PLOT.value)
    if PROMPTS.value:
        for folder in folders:
            print(f"{folder}:\n{prompt_gap(folder)}\n")
        return
    runs = {folder.name: read_curves(folder) for folder in folders}
    if len(runs) < len(folders):
        raise ConfigError("two run folders have the same name: expected different names")
    names = choose(runs, METRICS.value)
    print(table(runs, names))
    for folder in folders:
        print(f"\n{folder.name}: {health_of(folder, runs[folder.name])}")
    if PLOT.value:
        draw(runs, names, Path(PLOT.value))
        print(f"drawn: {PLOT.value}")


if __name__ == "__main__":
    cli.run(main)
