"""What a run tells while it works: JSON lines, TensorBoard, and a progress bar for each stage."""

import contextlib
import json
import time
from collections.abc import Callable
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
        line = {"step": step, "seconds": round(time.monotonic() - self._start, 3)}
        line |= {name: _by_seed(value) for name, value in metrics.items()}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        for name, value in metrics.items():
            self._board.add_scalar(name, float(np.mean(value)), step)

    def report(self, step: int, metrics: dict[str, Any]) -> None:
        """Write one line unless the file has it: what a finished stage tells again is told once."""
        new = {"step": step, **{name: _by_seed(value) for name, value in metrics.items()}}
        lines = self._keep(lambda line: True)
        if not any(all(line.get(n) == value for n, value in new.items()) for line in lines):
            self.write(step, metrics)

    def forget(self, stage: str, done: int) -> None:
        """Drop a stage's lines after update `done`."""
        stages = {stage, "evaluate"} if stage == "policy" else {stage}

        def before(line):
            names = {name.split("/")[0] for name in line if "/" in name}
            return not (names & stages and line["step"] > done)

        self._keep(before)

    def _keep(self, wanted: Callable[[dict], bool]) -> list[dict]:
        """Drop the lines that are not wanted, and a last line cut off by a kill."""
        self._file.close()
        kept = []
        for text in self._path.read_text().splitlines():
            with contextlib.suppress(ValueError):
                if wanted(line := json.loads(text)):
                    kept.append((text + "\n", line))
        part = self._path.with_suffix(".part")
        part.write_text("".join(text for text, _ in kept))
        part.replace(self._path)
        self._file = self._path.open("a")
        return [line for _, line in kept]

    def close(self) -> None:
        """Finish both files."""
        self._file.close()
        self._board.close()


def _by_seed(value: Any) -> list[float | str]:
    return [_finite(x) for x in np.atleast_1d(np.asarray(value, np.float64))]


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
