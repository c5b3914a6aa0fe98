"""One bar over all cells of a study; its unit is an update, so that the time left is meaningful.

The progress of a running cell is read from its metrics.jsonl, both for a cell in this process and
for a job on another machine.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from tqdm import tqdm

from zsrl_jax.commands.paper.cells import Cell, Place
from zsrl_jax.training import metrics

LOOK = 2.0  # seconds
LOG = 30.0  # seconds between two lines when the bar is written to a file
STAGE = {"encoder": "encoder", "score": "policy", "oracle": "policy"}  # a cell's main stage


class Progress:
    """The overall bar."""

    def __init__(self, cells: Sequence[Cell], done: Sequence[Cell], place: Place):
        self.place, self.watched = place, dict[Cell, int]()
        self.cost = {cell: cost(cell, place) for cell in cells}
        start = sum(self.cost[cell] for cell in done)
        self.left, self.total = len(cells) - len(done), len(cells)
        self.bar = tqdm(total=sum(self.cost.values()), initial=start, unit="update",
                        desc=f"{len(done)}/{len(cells)} cells", dynamic_ncols=True)  # fmt: skip
        self.at, self.shown = "", 0.0  # stage of this process's cell; when the bar was drawn

    @contextlib.contextmanager
    def watch(self, cell: Cell) -> Iterator[Callable[[str], None]]:
        """Follow a cell that runs in this process; yield a function that takes its stage."""
        self.start(cell)
        stop = threading.Event()

        def follow() -> None:
            while not stop.wait(LOOK):
                self.look()

        def tell(what: str) -> None:
            self.at = what
            self.look()

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield tell
        finally:
            stop.set()
            thread.join()

    def start(self, cell: Cell) -> None:
        """Count a cell as running; its earlier updates are done and do not count for the speed."""
        before = min(position(cell, self.place), self.cost[cell])
        self.watched[cell] = before
        self.bar.n += before
        self.bar.initial += before

    def look(self) -> None:
        """Advance the bar by what the running cells have done since the last call."""
        for cell, before in list(self.watched.items()):
            now = max(before, min(position(cell, self.place), self.cost[cell]))
            self.bar.n += now - before  # drawn below; the rate is over the whole time
            self.watched[cell] = now
        names = ", ".join(
            label(cell) + ("" if now or cell.kind not in STAGE else " (before its first update)")
            for cell, now in self.watched.items()
        )
        self.bar.set_postfix_str(f"{self.at} of {names}" if self.at else names, refresh=False)
        self._draw()

    def _draw(self, now: bool = False) -> None:
        """Draw the bar; less often into a file, where each drawing is a line."""
        every = LOOK if sys.stderr.isatty() else LOG
        if now or time.monotonic() - self.shown >= every:
            self.bar.refresh()
            self.shown = time.monotonic()

    def finish(self, cell: Cell, failure: str | None) -> None:
        """Count a cell as finished, and print if it failed."""
        self.bar.n += self.cost[cell] - self.watched.pop(cell, 0)
        self.left -= 1
        self.bar.set_description(f"{self.total - self.left}/{self.total} cells", refresh=False)
        self._draw(now=True)
        if failure:
            tqdm.write(f"failed: {cell.name}: {failure}")

    def close(self) -> None:
        """Leave the bar as it stands."""
        self.bar.set_postfix_str("", refresh=False)
        self.bar.close()


def label(cell: Cell) -> str:
    """Name a cell beside the bar."""
    return f"encoder {cell.name}" if cell.kind == "encoder" else cell.name


def cost(cell: Cell, place: Place) -> int:
    """Return the updates of a cell, summed over its seeds; a measurement counts a little."""
    config = cell.config(place)
    learners = cell.seeds * (len(config.oracle.tasks) if cell.kind == "oracle" else 1)
    stage = STAGE.get(cell.kind)
    return learners * (config[stage].updates if stage else config.encoder.updates // 20 + 1)


def position(cell: Cell, place: Place) -> int:
    """Return the updates that a running cell has done, by its metrics."""
    stage = STAGE.get(cell.kind)
    if stage is None:
        return 0
    line = metrics.read_last(cell.folder(place), f"{stage}/")
    return line.get("step", 0) * cost(cell, place) // cell.config(place)[stage].updates
