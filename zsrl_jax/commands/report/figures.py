"""How figures look: colours of samplers, a stamp with scale, seeds, data and updates, files."""

import base64
import io
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from zsrl_jax.commands.report.load import Row
from zsrl_jax.commands.report.stamps import stamp

COLOURS = {
    "uniform": "#8c8c8c", "btd": "#1f77b4", "btd_centered": "#17becf", "subtraj": "#2ca02c",
    "full_traj": "#9467bd", "mix": "#e377c2", "goal_mix": "#ff7f0e", "tasks": "#d62728",
}  # fmt: skip
CYCLE = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf")
MISSING = "missing"
PER_INCH = 20  # letters of a stamp per inch


class Chart(NamedTuple):
    """A drawn figure: its file name, what it shows, and the runs behind it."""

    name: str
    caption: str
    figure: Figure
    rows: list[Row]


def panels(
    count: int, width: float = 4.0, height: float = 3.2, room: float = 0.0
) -> tuple[Figure, list]:
    """Open a row of panels, with room (inches) for a legend at the right and the stamp below."""
    size = max(width * count, 4.7) + room, height + 0.6
    figure, axes = plt.subplots(1, count, figsize=size, squeeze=False)
    figure.set_layout_engine(ConstrainedLayoutEngine(rect=(0, 0.09, 1, 0.91)))
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, list(axes[0])


def finish(
    name: str, caption: str, figure: Figure, rows: list[Row], without: str = "cells missing"
) -> Chart:
    """Stamp a figure with scale, seeds, data and updates, and with what is missing."""
    runs = [run for row in rows for run in row.runs()]
    lost = sum(run.results is None for run in runs)
    pieces = stamp(rows).split(" · ") + ([f"{lost} of {len(runs)} {without}"] if lost else [])
    text = _wrap(pieces, int(PER_INCH * figure.get_figwidth()))
    figure.text(0.5, 0.01, text, ha="center", va="bottom", fontsize=6.5, color="#555555")
    return Chart(name, caption, figure, rows)


def _wrap(pieces: list[str], width: int) -> str:
    """Join parts by dots, in as few lines as this many letters allow."""
    lines = [pieces[0]]
    for piece in pieces[1:]:
        if len(lines[-1]) + 3 + len(piece) <= width:
            lines[-1] += f" · {piece}"
        else:
            lines.append(piece)
    return "\n".join(lines)


def legend(figure: Figure, keys: list) -> None:
    """Put a legend beside the panels, where it hides nothing."""
    figure.legend(handles=keys, loc="outside right upper", fontsize=8, frameon=False,
                  handlelength=2.6)  # fmt: skip


def line(label: str, shade: str, dash: Any = "-", mark: str = "") -> Line2D:
    """Return a legend's entry for a line."""
    return Line2D([], [], color=shade, linestyle=dash, marker=mark, markersize=5, label=label,
                  markerfacecolor="none", linewidth=1.4)  # fmt: skip


def patch(label: str, shade: str, hatch: str | None = None) -> Patch:
    """Return a legend's entry for a bar."""
    return Patch(facecolor=shade, hatch=hatch, label=label)


def dot(label: str, shade: str, mark: str, size: float = 6) -> Line2D:
    """Return a legend's entry for points."""
    edge = {"*": "black", "x": shade}.get(mark, "none")
    return Line2D([], [], color=shade, linestyle="", marker=mark, markersize=size, label=label,
                  markeredgecolor=edge, markeredgewidth=1 if mark == "x" else 0.5)  # fmt: skip


def cross() -> Line2D:
    """Return a legend's entry for what is missing."""
    return dot(MISSING, "#b00020", "x")


def palette(names: list[str]) -> dict[str, str]:
    """Return a colour for each name: a sampler's own, or one by order."""
    return {name: colour(name, i) for i, name in enumerate(names)}


def colour(name: str, index: int = 0) -> str:
    """Return a sampler's colour, or one by order."""
    return COLOURS.get(name, CYCLE[index % len(CYCLE)])


def mark_missing(axis, x: float | None, what: str = "", shade: str = "#b00020") -> None:
    """Write at a point of the horizontal axis what is missing there; marks do not overlap."""
    key = round(float(x or 0), 6)
    before = axis.__dict__.setdefault("marked", {})
    text = axis.annotate(
        f"{what} {MISSING}".strip(), (key, 0.02), (8 * before.get(key, 0), 0), rotation=90,
        xycoords=axis.get_xaxis_transform(), textcoords="offset points", fontsize=6.5,
        ha="center", va="bottom", color=shade,
    )  # fmt: skip
    text.set_in_layout(False)
    before[key] = before.get(key, 0) + 1


def save(chart: Chart, folder: Path, kinds: tuple[str, ...] = ("png", "pdf")) -> list[Path]:
    """Write a figure as PNG and PDF, or as one of them."""
    files = [folder / f"{chart.name}.{kind}" for kind in kinds]
    files[0].parent.mkdir(parents=True, exist_ok=True)
    for file in files:
        fixed = {"CreationDate": None} if file.suffix == ".pdf" else {"Software": None}
        chart.figure.savefig(file, dpi=150, metadata=fixed)
    return files


def inline(chart: Chart) -> str:
    """Return a figure as a data URL, for a self-contained page."""
    buffer = io.BytesIO()
    chart.figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def close(charts: list[Chart]) -> None:
    """Free the figures."""
    for chart in charts:
        plt.close(chart.figure)
