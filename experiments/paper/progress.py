"""One bar over all cells of a study: its unit is an update, so that the time left means something.

How far a running cell is, is read from its metrics.jsonl: the same for a cell in this process and
for a job on another machine.
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from experiments.paper.cells import Cell, Place

TAIL = 20_000  # bytes that hold the last line of metrics
LOOK = 2.0  # seconds
STAGE = {"encoder": "encoder", "score": "policy", "oracle": "policy"}  # what takes a cell's time


class Progress:
    """The overall bar."""

    def __init__(self, cells: Sequence[Cell], done: Sequence[Cell], place: Place):
        self.place, self.watched = place, dict[Cell, int]()
        self.cost = {cell: cost(cell, place) for cell in cells}
        start = sum(self.cost[cell] for cell in done)
        self.left, self.total = len(cells) - len(done), len(cells)
        self.bar = tqdm(total=sum(self.cost.values()), initial=start, unit="update",
                        desc=f"{len(done)}/{len(cells)} cells", dynamic_ncols=True,
                        smoothing=0.02)  # fmt: skip

    @contextlib.contextmanager
    def watch(self, cell: Cell) -> Iterator[None]:
        """Follow a cell that runs in this process."""
        self.watched[cell] = 0
        stop = threading.Event()

        def follow() -> None:
            while not stop.wait(LOOK):
                self.look()

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def look(self) -> None:
        """Advance by what the running cells have done since the last look."""
        for cell, before in list(self.watched.items()):
            now = max(before, min(position(cell, self.place), self.cost[cell]))
            self.bar.update(now - before)
            self.watched[cell] = now
        self.bar.set_postfix_str(", ".join(cell.name for cell in self.watched)[:60])

    def finish(self, cell: Cell, failure: str | None) -> None:
        """Count a cell as over, and tell if it failed."""
        self.bar.update(self.cost[cell] - self.watched.pop(cell, 0))
        self.left -= 1
        self.bar.set_description(f"{self.total - self.left}/{self.total} cells")
        if failure:
            tqdm.write(f"failed: {cell.name}: {failure}")

    def close(self) -> None:
        """Leave the bar as it stands."""
        self.bar.close()


def cost(cell: Cell, place: Place) -> int:
    """Return the updates that a cell takes, over its seeds; a measurement counts a little."""
    config = cell.config(place)
    lanes = cell.seeds * (len(config.oracle.tasks) if cell.kind == "oracle" else 1)
    stage = STAGE.get(cell.kind)
    return lanes * (config[stage].updates if stage else config.encoder.updates // 20 + 1)


def position(cell: Cell, place: Place) -> int:
    """Return the updates that a running cell has done, by its metrics."""
    stage = STAGE.get(cell.kind)
    if stage is None:
        return 0
    line = last_line(cell.folder(place) / "metrics.jsonl", f"{stage}/")
    return line.get("step", 0) * cost(cell, place) // cell.config(place)[stage].updates


def last_line(file: Path, prefix: str) -> dict:
    """Return the last whole line of metrics that has a metric of this prefix."""
    if not file.exists():
        return {}
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - TAIL))
        lines = opened.read().decode(errors="replace").splitlines()
    for text in reversed(lines):
        try:
            line = json.loads(text)
        except ValueError:
            continue  # half written, or the cut at the front
        if any(name.startswith(prefix) for name in line):
            return line
    return {}
