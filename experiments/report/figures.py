"""How figures look: colours of samplers, a stamp that says what each is of, where they go."""

import base64
import io
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from experiments.report.load import Row, stamp

COLOURS = {
    "uniform": "#8c8c8c", "btd": "#1f77b4", "btd_centered": "#17becf", "subtraj": "#2ca02c",
    "full_traj": "#9467bd", "mix": "#e377c2", "goal_mix": "#ff7f0e", "tasks": "#d62728",
}  # fmt: skip
CYCLE = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf")
MARKERS = "osD^vPX"
MISSING = "missing"
plt.rcParams["legend.loc"] = "upper left"  # "best" searches, and slowly


class Chart(NamedTuple):
    """A drawn figure: its file name, what it shows, and the runs behind it."""

    name: str
    caption: str
    figure: Figure
    rows: list[Row]


def panels(count: int, width: float = 4.2, height: float = 3.4) -> tuple[Figure, list]:
    """Open a row of panels, with room for the stamp below."""
    figure, axes = plt.subplots(1, count, figsize=(max(width * count, 6.0), height + 0.6),
                                squeeze=False)  # fmt: skip
    figure.set_layout_engine(ConstrainedLayoutEngine(rect=(0, 0.09, 1, 0.91)))
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, list(axes[0])


def finish(name: str, caption: str, figure: Figure, rows: list[Row]) -> Chart:
    """Stamp a figure with scale, data and seeds, and with what is missing."""
    lost = sum(row.results is None for row in rows)
    text = stamp(rows).replace(" · not", "\nnot")
    text += f" · {lost} of {len(rows)} cells missing" if lost else ""
    figure.text(0.5, 0.01, text, ha="center", va="bottom", fontsize=6.5, color="#555555")
    return Chart(name, caption, figure, rows)


def colour(name: str, index: int = 0) -> str:
    """Return a sampler's colour, or one by order."""
    return COLOURS.get(name, CYCLE[index % len(CYCLE)])


def mark_missing(axis, x: float | None, what: str = "", shade: str = "#b00020") -> None:
    """Write at a place of the horizontal axis what is missing there; marks stand side by side."""
    key = round(float(x or 0), 6)
    before = axis.__dict__.setdefault("marked", {})
    text = axis.annotate(
        f"{what} {MISSING}".strip(), (key, 0.02), (8 * before.get(key, 0), 0), rotation=90,
        xycoords=axis.get_xaxis_transform(), textcoords="offset points", fontsize=6.5,
        ha="center", va="bottom", color=shade,
    )  # fmt: skip
    text.set_in_layout(False)
    before[key] = before.get(key, 0) + 1


def save(chart: Chart, folder: Path) -> list[Path]:
    """Write a figure as PNG and PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{chart.name}.{kind}" for kind in ("png", "pdf")]
    for file in files:
        fixed = {"CreationDate": None} if file.suffix == ".pdf" else {"Software": None}
        chart.figure.savefig(file, dpi=150, metadata=fixed)
    return files


def inline(chart: Chart) -> str:
    """Return a figure as a data address, for a page that stands alone."""
    buffer = io.BytesIO()
    chart.figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def close(charts: list[Chart]) -> None:
    """Free the figures."""
    for chart in charts:
        plt.close(chart.figure)
