"""The chart of bench `train`: shares, ratios to PyTorch, and growth if it was measured."""

from pathlib import Path
from typing import Any

import numpy as np

TITLES = {"share": "share of matrix speed", "torch_ratio": "times PyTorch"}
LABELS = {"dim": "d", "batch": "batch", "rows": "rows of data"}


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw the results: bars for each learner and size, lines for growth."""
    import matplotlib.pyplot as plt

    rows, curves = found["rows"], found.get("growth", [])
    axes_of = list(dict.fromkeys(row["axis"] for row in curves))
    bars = [field for field in TITLES if any(field in row for row in rows)]
    figure, all_axes = plt.subplots(
        1, len(bars + axes_of), figsize=(3.6 * len(bars + axes_of), 3.6), layout="constrained"
    )
    for panel, axes in zip(bars + axes_of, np.atleast_1d(all_axes), strict=True):
        if panel in axes_of:
            _lines(axes, [row for row in curves if row["axis"] == panel], panel)
        else:
            _bars(axes, rows, panel)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _bars(axes: Any, rows: list[dict[str, Any]], field: str) -> None:
    names = list(dict.fromkeys(row["name"] for row in rows))
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    for place, size in enumerate(sizes):
        mine = {row["name"]: row.get(field, np.nan) for row in rows if row["size"] == size}
        shift = (place - (len(sizes) - 1) / 2) * 0.4
        axes.bar(np.arange(len(names)) + shift, [mine.get(n, np.nan) for n in names], 0.38,
                 label=size)  # fmt: skip
    axes.set_xticks(np.arange(len(names)), names, rotation=60, fontsize=8)
    axes.set_ylabel(TITLES[field])


def _lines(axes: Any, rows: list[dict[str, Any]], axis: str) -> None:
    values = sorted({row["value"] for row in rows})
    for name in dict.fromkeys(row["name"] for row in rows):
        taken = {row["value"]: 1e3 * row["seconds"] for row in rows if row["name"] == name}
        axes.loglog(list(taken), list(taken.values()), "o-", label=name)
    axes.minorticks_off()
    axes.set_xticks(values, [_short(v) for v in values], fontsize=8)
    spread = [1e3 * row["seconds"] for row in rows]
    ticks = [t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if t < 2 * max(spread)]
    axes.set_yticks(ticks, [str(t) for t in ticks], fontsize=8)
    axes.set_ylim(0.5 * min(spread), 2 * max(spread))
    axes.set_xlabel(LABELS[axis])
    axes.set_ylabel("ms per update")


def _short(value: int) -> str:
    return f"{value:,}" if value < 10_000 else f"$10^{{{round(np.log10(value))}}}$"
