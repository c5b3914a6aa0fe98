"""One run on the page: scores, curves, R^2, its films, how its config deviates, and its health."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.analysis import health
from zsrl_jax.commands.report.charts import RED
from zsrl_jax.commands.report.figures import CYCLE, Chart, finish, legend, line, panels, patch
from zsrl_jax.commands.report.load import Row
from zsrl_jax.commands.report.tables import Entry, Table, number
from zsrl_jax.errors import ZsrlError
from zsrl_jax.settings import cells, fields
from zsrl_jax.settings.ranges import flat
from zsrl_jax.training import metrics

MOST = 6  # runs that are shown in full
FILMS = (".gif", ".mp4")
SHOWN = ("encoder/loss", "encoder/effective_rank", "policy/q_abs", "policy/critic_loss",
         "policy/saturated", "evaluate/mean")  # fmt: skip
NOT_SET = ("domain", "scale", "scale_reason")  # fields that are in the run's name, or follow


def charts(row: Row, mark: str) -> list[Chart]:
    """Draw a run's scores and its main curves; `mark` tells its files from those of other runs."""
    return [score_chart(row, mark), *curve_chart(row, mark)]


def score_chart(row: Row, mark: str) -> Chart:
    """Draw the score of each task, its seeds, the random policy and what the data earns."""
    results = row.results or {}
    tasks, scores = results["tasks"], row.scores
    figure, (axis,) = panels(1, width=1.6 + 0.7 * len(tasks), room=1.6)
    if scores.size:
        axis.bar(range(len(tasks)), scores.mean(axis=0), 0.6, color=CYCLE[0])
    for seed in scores if len(scores) > 1 else ():
        axis.plot(range(len(tasks)), seed, "k.", markersize=4)
    keys: list[Any] = [patch("agent" + (" (dots: seeds)" if len(scores) > 1 else ""), CYCLE[0])]
    marks = {
        "random policy": (np.mean(results["random"], axis=1), "black", ":"),
        "data's mean episode": (results.get("data_mean"), "#2ca02c", "-"),
        "data's best 100 steps": (results.get("data_best"), RED, "--"),
    }
    for label, (values, shade, dash) in marks.items():
        if values is not None and len(values) == len(tasks):
            places = np.arange(len(tasks))
            axis.hlines(values, places - 0.38, places + 0.38, color=shade, linestyle=dash)
            keys.append(line(label, shade, dash))
    axis.set_xticks(range(len(tasks)), tasks, rotation=25, ha="right", fontsize=8)
    axis.set_ylim(0, max(axis.get_ylim()[1], 1.0))
    axis.set(ylabel="return", title=row.folder.name)
    legend(figure, keys)
    return finish(f"{mark}_scores", f"Scores of {row.folder.name} by task.", figure, [row])


def curve_chart(row: Row, mark: str) -> list[Chart]:
    """Draw the main curves of a run, those that were logged at least twice."""
    curves = metrics.curves(row.folder)
    shown = [name for name in SHOWN if len(curves.get(name, ((),))[0]) > 1]
    if not shown:
        return []
    figure, axes = panels(len(shown), width=2.7, height=2.4)
    for axis, name in zip(axes, shown, strict=True):
        axis.plot(*curves[name], color=CYCLE[0], linewidth=1.2)
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("update", fontsize=8)
        axis.tick_params(labelsize=7)
    caption = f"Curves of {row.folder.name}, means over seeds."
    return [finish(f"{mark}_curves", caption, figure, [row])]


def tables(row: Row) -> list[Table]:
    """Return a run's verdicts, its prompts by task, and how its config deviates."""
    return [health_table(row), *prompt_table(row), deviation_table(row)]


def health_table(row: Row) -> Table:
    """Show what the rules of docs/diagnostics.md say."""
    results = row.results or {}
    verdicts = health.examine(metrics.curves(row.folder), results.get("config", {}), results)
    body = [[Entry(v.metric), Entry(v.state), Entry(v.text)] for v in verdicts]
    title = f"{row.folder.name}: {health.summary(verdicts)}"
    return Table(title, ["what", "verdict", "why, and what to do"], body)


def prompt_table(row: Row) -> list[Table]:
    """Show R^2 and cosine of each task's prompt, means over seeds; an oracle has none."""
    results = row.results or {}
    if row.kind == "oracle" or "r2" not in results:
        return []
    parts = [_means(results[name]) for name in ("r2", "cosine")]
    rows = zip(results["tasks"], *parts, strict=True)
    body = [[Entry(task), *(number(value, 2) for value in values)] for task, *values in rows]
    head = ["task", "R² of the reward regression", "cosine to the data's nearest task"]
    return [Table(f"{row.folder.name}: prompts", head, body)]


def _means(values: list[list[float | None]]) -> list[float]:
    """Return means over seeds of [seed, task], with nan where a value is missing."""
    table = np.array(values, np.float64)
    return [float(np.mean(column)) if np.isfinite(column).all() else math.nan for column in table.T]


def deviation_table(row: Row) -> Table:
    """Show the fields of a run's config that differ from the defaults of its cell and scale."""
    config = (row.results or {}).get("config", {})
    default, own = flat(_defaults(config)), flat(config)
    body = [
        [Entry(path), Entry(_plain(default.get(path))), Entry(_plain(value))]
        for path, value in own.items()
        if path not in NOT_SET and _plain(default.get(path)) != _plain(value)
    ]
    scale = config.get("scale", "?")
    title = f"{row.folder.name}: {len(body)} fields differ from {scale} scale's"
    return Table(title, ["field", "default", "here"], body)


def _plain(value: Any) -> str:
    return str(list(value)) if isinstance(value, list | tuple) else str(value)


def _defaults(config: dict[str, Any]) -> Any:
    """Return the config of the same cell and scale with nothing set."""
    try:
        if "oracle" in config:
            return cells.oracle_config(config["domain"], config["oracle"]["tasks"], config["scale"])
        name = config.get("preset") or config["encoder"]["name"]
        return cells.config(config["domain"], name, config["tasks"]["sampler"], config["scale"])
    except ZsrlError:  # an encoder or a domain of the user's own, not registered here
        return fields.defaults_of(config)


def films(row: Row) -> list[Path]:
    """Return the films in a run's folder."""
    return sorted(file for file in row.folder.iterdir() if file.suffix in FILMS)
