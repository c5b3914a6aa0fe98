"""Cells one after the other in this process, and the order that any launcher keeps.

Encoders go first, so that none is trained twice; then all cells that take them. On a CPU one cell
uses all cores and a second one beside it gains nothing, so cells run one at a time; on a machine
with several accelerators each gets a cell of its own, as a job (`jobs`).
"""

import os
import traceback
from collections.abc import Sequence
from pathlib import Path

import jax

from experiments.paper.cells import Cell, Place
from experiments.paper.progress import Progress
from experiments.paper.work import do
from zsrl_jax import signals
from zsrl_jax.errors import ZsrlError


def waves(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Part cells into those that others wait for and the rest; each cell once."""
    encoders = [cell.encoder_cell() for cell in cells]
    first = dict.fromkeys(cell for cell in encoders if cell is not None)
    return [list(first), list(dict.fromkeys(cells))]


def run_here(cells: Sequence[Cell], place: Place, bar: Progress) -> dict[Cell, str]:
    """Complete cells one after the other; return what failed, with its reason."""
    failed: dict[Cell, str] = {}
    for cell in cells:
        if cell.encoder_cell() in failed:
            failed[cell] = "its encoder failed"
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


def count_accelerators() -> int:
    """Count the GPUs of this machine (1 where there is none), without taking any of them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = chosen.split(",") if chosen else [str(f) for f in Path("/dev").glob("nvidia[0-9]*")]
    return max(1, len(names))
