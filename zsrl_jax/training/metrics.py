"""What a run reports while it works: JSON lines, TensorBoard, and a progress bar for each stage.

`metrics.jsonl` is the record. Every save of a stage knows how long the file was. A run that goes on
from a save first cuts the file to that length, so that steps stay unique and increasing.
TensorBoard's files are then written anew from it.
"""

import contextlib
import json
import os
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.summary import scalar
from tqdm import tqdm

from zsrl_jax.errors import DiskError

FILE = "metrics.jsonl"
TAIL = 20_000  # bytes that hold the last line


class Log:
    """Append metrics to `metrics.jsonl` and TensorBoard; values are lists over seeds."""

    def __init__(self, workdir: Path, silent: bool = False):
        self._path, self._folder = workdir / FILE, workdir / "tensorboard"
        self._silent = silent  # another process writes it
        self._file: Any = None
        self._board: Any = None
        self._kept = 0  # bytes of an earlier run's file that this run keeps
        self._start = time.monotonic()
        self._waiting: deque[tuple[int, float, Any]] = deque()  # lines behind one that is not ready

    def go_on_from(self, position: int) -> None:
        """Keep this many bytes of an earlier run's file; the first write deletes the rest."""
        self._kept = position

    def write(self, step: int, metrics: dict[str, Any]) -> None:
        """Write one line: the step and every metric by seed; it waits behind lines of `later`."""
        if not self._silent:
            self._waiting.append((step, self._now(), metrics))
            self.release()

    def later(self, step: int, metrics: Future) -> None:
        """Keep the place of a line whose metrics are still being computed."""
        self._waiting.append((step, self._now(), metrics))

    def release(self, before: float = 0.0) -> None:
        """Write the lines that are ready, in order; wait for those of updates below `before`."""
        while self._waiting:
            step, seconds, metrics = self._waiting[0]
            if isinstance(metrics, Future):
                if step >= before and not metrics.done():
                    return
                metrics = metrics.result()
            self._waiting.popleft()
            self._put({"step": step, "seconds": seconds}, metrics)

    def holds(self) -> bool:
        """Tell whether a line is not written yet, because its metrics are not ready."""
        return bool(self._waiting)

    def _now(self) -> float:
        return round(time.monotonic() - self._start, 3)

    def _put(self, line: dict[str, Any], metrics: dict[str, Any]) -> None:
        line |= {name: _by_seed(value) for name, value in metrics.items()}
        try:
            if self._file is None:
                self._open()
            self._file.write(json.dumps(line).encode() + b"\n")  # unbuffered: one write per line
            self._show(line)
        except OSError as error:
            raise DiskError(
                f"cannot write '{self._path}': {os.strerror(error.errno or 0)}; the last "
                "checkpoint is intact: once the disk takes files, run the same command again"
            ) from error

    def report(self, step: int, metrics: dict[str, Any]) -> None:
        """Write one line, unless it is the next one in the file already."""
        if self._file is None and self._path.exists():
            text, end, _ = self._path.read_bytes()[self._kept :].partition(b"\n")
            told = parse(text + end)
            if (
                told
                and told[0].keys() - {"seconds"} == {"step", *metrics}
                and told[0]["step"] == step
            ):
                self._kept += len(text) + 1
                return
        self.write(step, metrics)

    def position(self) -> int:
        """Return the length of the file, after all of it is on disk."""
        if self._file is None:
            return self._kept
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Finish both files; every line was flushed as it was written."""
        for file in (self._file, self._board):
            if file is not None:
                with contextlib.suppress(OSError):  # a full disk was reported by `write`
                    file.close()

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = self._path.read_bytes()[: self._kept] if self._path.exists() else b""
        kept = kept[: kept.rfind(b"\n") + 1]
        if len(kept) < self._kept:
            print(f"metrics: '{self._path}' is shorter than at the last save: lines are lost")
        self._file = self._path.open("ab", buffering=0)
        self._file.truncate(len(kept))
        self._file.seek(0, os.SEEK_END)
        for old in self._folder.glob("events.*"):
            old.unlink()
        self._board = EventsWriter(str(self._folder / "events"))
        for line in parse(kept):
            self._show(line)

    def _show(self, line: dict[str, Any]) -> None:
        """Put the mean over seeds of a line's metrics into TensorBoard's file."""
        for name, value in line.items():
            if "/" in name and np.isfinite(mean := _mean(value)):
                event = Event(wall_time=time.time(), step=line["step"], summary=scalar(name, mean))
                self._board.write_event(event)
        self._board.flush()


def parse(text: bytes) -> list[dict[str, Any]]:
    """Return the complete lines of a metrics file; a line that was cut off is left out."""
    found = []
    for line in text.split(b"\n")[:-1]:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def read(workdir: str | os.PathLike) -> list[dict[str, Any]]:
    """Return the metrics of a run, finished or not: one dict per line."""
    path = Path(workdir) / FILE
    return parse(path.read_bytes()) if path.exists() else []


def read_last(workdir: str | os.PathLike, prefix: str) -> dict[str, Any]:
    """Return the last line that has a metric of this prefix, from the end of the file alone."""
    path = Path(workdir) / FILE
    if not path.exists():
        return {}
    with path.open("rb") as opened:
        opened.seek(max(0, path.stat().st_size - TAIL))
        lines = parse(opened.read())  # the first one may be cut at its front: it is left out
    has = (line for line in reversed(lines) if any(name.startswith(prefix) for name in line))
    return next(has, {})


def _by_seed(value: Any) -> list[float | str]:
    return [_finite(x) for x in np.atleast_1d(np.asarray(value, np.float64))]


def _finite(value: float) -> float | str:
    """Return the number, or its name where JSON has no such number."""
    return float(f"{value:.6g}") if np.isfinite(value) else str(value)


def _mean(values: Any) -> float:
    """Return the mean over the finite seeds, or nan."""
    seen = np.asarray(values, np.float64)
    seen = seen[np.isfinite(seen)]
    return float(seen.mean()) if seen.size else float("nan")


def progress(stage: str, total: int, done: int, quiet: bool, unit: str = "update") -> tqdm:
    """Open a stage's bar: updates per second, time left, last metrics."""
    return tqdm(total=total, initial=done, desc=f"{stage:<8}", unit=unit, disable=quiet,
                dynamic_ncols=True, mininterval=1.0)  # fmt: skip


def show(bar: tqdm, metrics: dict[str, Any], names: tuple[str, ...]) -> None:
    """Put the mean over seeds of a few metrics behind the bar."""
    shown = {n.split("/")[-1]: f"{_mean(metrics[n]):.3g}" for n in names if n in metrics}
    bar.set_postfix(shown, refresh=False)


def curves(workdir: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return every metric of a run by name: its steps, and its means over seeds."""
    points: dict[str, list[tuple[int, float]]] = {}
    for line in read(workdir):
        for name, values in line.items():
            if "/" in name:
                mean = float(np.mean([float(value) for value in values]))
                points.setdefault(name, []).append((line["step"], mean))
    return {name: tuple(np.array(found).T) for name, found in points.items()}  # type: ignore[misc]
