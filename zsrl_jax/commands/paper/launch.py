"""Cells one after the other in this process, and how many at once are faster than that.

Encoders go first, so that none is trained twice; then all cells that take them. Each of several
accelerators gets a cell of its own, as a job (`jobs`), and so does each core of a CPU, for small
products share cores badly: at laptop sizes two cells on a core each do 1.3 (lra_p) to 1.6 times
(policy) the updates of one cell on both. Products of paper size fill all cores, which then work on
one cell at a time.
"""

import os
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import jax

from zsrl_jax.commands.paper.cells import Cell, Place
from zsrl_jax.commands.paper.progress import Progress
from zsrl_jax.commands.paper.work import do
from zsrl_jax.devices import signals
from zsrl_jax.errors import ZsrlError

GIB = 3.0  # of memory that a cell of laptop scale may take; quadruped's was seen at 2.3


def waves(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Part cells into those that others wait for and the rest; each cell once."""
    encoders = [cell.encoder_cell() for cell in cells]
    first = dict.fromkeys(cell for cell in encoders if cell is not None)
    return [list(first), list(dict.fromkeys(cells))]


def part(cells: Sequence[Cell], place: Place) -> tuple[list[Cell], list[Cell]]:
    """Part cells into those done and those left; an encoder is left only if such a cell takes it.

    So a study whose encoders were deleted afterwards trains none of them again to be drawn.
    """
    done = [cell for cell in cells if cell.is_done(place)]
    left = [cell for cell in cells if cell not in done]
    taken = {cell.encoder_cell() for cell in left}
    return done, [cell for cell in left if cell.kind != "encoder" or cell in taken]


def run_here(cells: Sequence[Cell], place: Place, bar: Progress) -> dict[Cell, str]:
    """Complete cells one after the other; return what failed, with its reason."""
    failed: dict[Cell, str] = {}
    for cell in cells:
        if cell.encoder_cell() in failed:
            failed[cell] = "its encoder failed"
            bar.finish(cell, failed[cell])
            continue
        signals.check()  # one that came while the last cell ended
        with bar.watch(cell) as tell:
            try:
                do(cell, place, tell)
            except ZsrlError as error:
                failed[cell] = str(error)
            except Exception as error:  # out of memory, say: days of other cells go on
                failed[cell] = f"{type(error).__name__}: {error}"
                bar.bar.write(traceback.format_exc())
            finally:
                jax.clear_caches()  # the next cell's programs are others
        bar.finish(cell, failed.get(cell))
    return failed


def cores_for_cells(scale: str) -> tuple[frozenset[int], ...]:
    """Return the core of each cell that should run at once on a CPU; none: one cell on them all."""
    if scale == "paper" or not hasattr(os, "sched_getaffinity") or jax.default_backend() != "cpu":
        return ()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = max(1, int(memory / 2**30 / GIB))
    found = tuple(frozenset({core}) for core in sorted(os.sched_getaffinity(0))[:most])
    return found if len(found) > 1 and find_spec("submitit") else ()


def accelerators() -> list[str]:
    """Return the names of the GPUs that this process may use, without taking any of them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip()]
    found = (file.name.removeprefix("nvidia") for file in Path("/dev").glob("nvidia[0-9]*"))
    return sorted(found, key=int)
