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
        self._path = workdir / "metrics.jsonl"
        self._file = self._path.open("a")
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

    def forget(self, stage: str, done: int) -> None:
        """Drop a stage's lines after update `done` (and a last line cut off by a kill)."""
        self._file.close()
        kept = []
        for text in self._path.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            names = {name.split("/")[0] for name in line if "/" in name}
            mine = names & ({stage, "evaluate"} if stage == "policy" else {stage})
            if not (mine and line["step"] > done):
                kept.append(text + "\n")
        part = self._path.with_suffix(".part")
        part.write_text("".join(kept))
        part.replace(self._path)
        self._file = self._path.open("a")

    def close(self) -> None:
        """Finish both files."""
        self._file.close()
        self._board.close()


def _finite(value: float) -> float | str:
    """Return a number that JSON has, or its name."""
    return float(f"{value:.6g}") if np.isfinite(value) else str(value)


def progress(stage: str, total: int, done: int, quiet: bool, unit: str = "update") -> tqdm:
    """Open a stage's bar: updates a second, time left, last metrics."""
    return tqdm(total=total, initial=done, desc=f"{stage:<8}", unit=unit, disable=quiet,
                dynamic_ncols=True, mininterval=1.0)  # fmt: skip


def show(bar: tqdm, metrics: dict[str, Any], names: tuple[str, ...]) -> None:
    """Put the mean over seeds of a few metrics behind the bar."""
    shown = {n.split("/")[-1]: f"{np.mean(metrics[n]):.3g}" for n in names if n in metrics}
    bar.set_postfix(shown, refresh=False)
