"""Cells one after the other in this process, and how many at once are faster than that.

Encoders run first, so that none is trained twice; then all cells that use them. A collection is
done before the next one, so that a study which is cut off has whole seeds to compare. Each of
several accelerators gets a cell of its own, as a job (`jobs`). So does each core of a CPU, because
small products share cores badly: at laptop sizes two cells on one core each do 1.3 (lra_p) to 1.6
times (policy) the updates of one cell on both cores. Products of paper size fill all cores, so
there one cell runs at a time.
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

GIB = 3.0  # of memory that a cell of laptop scale may take; quadruped took 2.3


def waves(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Split cells into those that others need and the rest; each cell once."""
    encoders = [cell.encoder_cell() for cell in cells]
    first = dict.fromkeys(cell for cell in encoders if cell is not None)
    return [list(first), list(dict.fromkeys(cells))]


def part(cells: Sequence[Cell], place: Place) -> tuple[list[Cell], list[Cell]]:
    """Split cells into done and left; an encoder is left only if a cell that is left needs it.

    So a finished study whose encoders were deleted is drawn without training them again.
    """
    done = [cell for cell in cells if cell.is_done(place)]
    left = [cell for cell in cells if cell not in done]
    taken = {cell.encoder_cell() for cell in left}
    wanted = [cell for cell in left if cell.kind != "encoder" or cell in taken]
    return done, sorted(wanted, key=lambda cell: cell.collection or 0)


def run_here(cells: Sequence[Cell], place: Place, bar: Progress) -> dict[Cell, str]:
    """Complete cells one after the other; return the cells that failed, with the reason."""
    failed: dict[Cell, str] = {}
    for cell in cells:
        if cell.encoder_cell() in failed:
            failed[cell] = "its encoder failed"
            bar.finish(cell, failed[cell])
            continue
        signals.check()  # a signal that came while the last cell ended
        with bar.watch(cell) as tell:
            try:
                do(cell, place, tell)
            except ZsrlError as error:
                failed[cell] = str(error)
            except Exception as error:  # such as out of memory: the other cells go on
                failed[cell] = f"{type(error).__name__}: {error}"
                bar.bar.write(traceback.format_exc())
            finally:
                jax.clear_caches()  # the next cell has other programs
        bar.finish(cell, failed.get(cell))
    return failed


def cores_for_cells(scale: str) -> tuple[frozenset[int], ...]:
    """Return the core of each cell to run at once on a CPU; empty: one cell on all cores."""
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
