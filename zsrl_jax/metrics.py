"""What a run tells while it works: JSON lines, TensorBoard, and a progress bar for each stage."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from tensorboardX import SummaryWriter
from tqdm import tqdm


class Log:
    """Append metrics to `metrics.jsonl` and TensorBoard; values are lists over seeds."""

    def __init__(self, workdir: Path):
        workdir.mkdir(parents=True, exist_ok=True)
        self._file = (workdir / "metrics.jsonl").open("a")
        self._board = SummaryWriter(str(workdir / "tensorboard"))
        self._start = time.monotonic()

    def write(self, step: int, metrics: dict[str, Any]) -> None:
        """Write one line: the step and every metric by seed."""
        values = {name: np.asarray(value, np.float64) for name, value in metrics.items()}
        line = {"step": step, "seconds": round(time.monotonic() - self._start, 3)}
        line |= {name: [_finite(x) for x in np.atleast_1d(v)] for name, v in values.items()}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(name, float(value.mean()), step)

    def close(self) -> None:
        """Finish both files."""
        self._file.close()
        self._board.close()


def _finite(value: float) -> float | str:
    """Return a number that JSON has, or its name."""
    return float(f"{value:.6g}") if np.isfinite(value) else str(value)


def progress(stage: str, total: int, done: int, quiet: bool) -> tqdm:
    """Open a stage's bar: updates a second, time left, last metrics."""
    return tqdm(total=total, initial=done, desc=f"{stage:<8}", unit="update", disable=quiet,
                dynamic_ncols=True, mininterval=1.0)  # fmt: skip


def show(bar: tqdm, metrics: dict[str, Any], names: tuple[str, ...]) -> None:
    """Put the mean over seeds of a few metrics behind the bar."""
    shown = {n.split("/")[-1]: f"{np.mean(metrics[n]):.3g}" for n in names if n in metrics}
    bar.set_postfix(shown, refresh=False)
