"""The chart of bench `train`: shares, ratios to PyTorch, and growth where it was measured."""

from pathlib import Path
from typing import Any

import numpy as np

LABELS = {"dim": "d", "batch": "batch", "rows": "rows of data"}


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw what was measured: bars for each learner and size, lines for growth."""
    import matplotlib.pyplot as plt

    rows, curves = found["rows"], found.get("growth", [])
    axes_of = list(dict.fromkeys(row["axis"] for row in curves))
    panels = ["share"] + ["torch_ratio"] * any("torch_ratio" in row for row in rows) + axes_of
    figure, all_axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.6))
    for panel, axes in zip(panels, np.atleast_1d(all_axes), strict=True):
        if panel in axes_of:
            _lines(axes, [row for row in curves if row["axis"] == panel], panel)
        else:
            _bars(axes, rows, panel)
    figure.tight_layout()
    figure.savefig(path, bbox_inches="tight", dpi=120)
    plt.close(figure)


def _bars(axes: Any, rows: list[dict[str, Any]], field: str) -> None:
    names = list(dict.fromkeys(row["name"] for row in rows))
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    for place, size in enumerate(sizes):
        mine = {row["name"]: row.get(field, np.nan) for row in rows if row["size"] == size}
        shift = (place - (len(sizes) - 1) / 2) * 0.4
        axes.bar(np.arange(len(names)) + shift, [mine.get(n, np.nan) for n in names], 0.38,
                 label=size)  # fmt: skip
    axes.set_xticks(np.arange(len(names)), names, rotation=60)
    axes.set_ylabel({"share": "share of matrix speed", "torch_ratio": "times PyTorch"}[field])
    axes.legend(fontsize=8)


def _lines(axes: Any, rows: list[dict[str, Any]], axis: str) -> None:
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = [row for row in rows if row["name"] == name]
        axes.loglog(
            [r["value"] for r in mine], [1e3 * r["seconds"] for r in mine], "o-", label=name
        )
    axes.set_xlabel(LABELS[axis])
    axes.set_ylabel("ms an update")
    axes.set_ylim(bottom=0.5 * min(1e3 * row["seconds"] for row in rows))
    axes.legend(fontsize=8)
