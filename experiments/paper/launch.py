"""Where cells are run: one after the other in this process, or as jobs through submitit.

Encoders go first and alone, so that none is trained twice (among jobs one a domain before the
others, so that data is collected once); then all cells that take them. On a CPU one cell uses all
cores and a second one beside it gains nothing, so cells run one at a time; on a machine with
several accelerators each gets a cell of its own.
"""

import os
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from experiments.paper.cells import Cell, Place
from experiments.paper.progress import Progress
from experiments.paper.work import do
from zsrl_jax.errors import ConfigError, ZsrlError

POLL = 2.0  # seconds between two looks at jobs


class Job:
    """A cell as a job; submitted again after preemption, it goes on from the cell's saves."""

    def __init__(self, cell: Cell, place: Place):
        self.cell, self.place = cell, place

    def __call__(self) -> str:
        """Complete the cell."""
        return str(do(self.cell, self.place))

    def checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Tell submitit what to run when the job is requeued: the same again."""
        import submitit

        return submitit.helpers.DelayedSubmission(Job(self.cell, self.place))


class Jobs(NamedTuple):
    """How jobs are submitted."""

    cluster: str  # local or slurm
    at_once: int  # 0: as many as the queue takes
    parameters: dict[str, Any]  # of submitit's executor


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
        with bar.watch(cell):
            try:
                do(cell, place)
            except ZsrlError as error:
                failed[cell] = str(error)
            except Exception as error:  # out of memory, say: days of other cells go on
                failed[cell] = f"{type(error).__name__}: {error}"
                bar.bar.write(traceback.format_exc())
            finally:
                jax.clear_caches()  # the next cell's programs are others
        bar.finish(cell, failed.get(cell))
    return failed


def run_jobs(cells: Sequence[Cell], place: Place, bar: Progress, how: Jobs) -> dict[Cell, str]:
    """Complete cells as jobs, encoders before the rest; return what failed, with its reason."""
    failed: dict[Cell, str] = {}
    encoders = [cell for cell in cells if cell.kind == "encoder"]
    first = list({cell.domain: cell for cell in reversed(encoders)}.values())  # fetches the data
    others = [cell for cell in encoders if cell not in first]
    for wave in (first, others, [cell for cell in cells if cell not in encoders]):
        ready = [cell for cell in wave if cell.encoder_cell() not in failed]
        failed |= {cell: "its encoder failed" for cell in wave if cell not in ready}
        failed |= _run_wave(ready, place, bar, how)
    return failed


def _run_wave(cells: list[Cell], place: Place, bar: Progress, how: Jobs) -> dict[Cell, str]:
    submit = _submitter(place, how)
    waiting, failed = list(cells), dict[Cell, str]()
    running: dict[int, tuple[Cell, Any]] = {}
    limit = how.at_once or len(cells)
    while waiting or running:
        for slot in range(limit):
            if waiting and slot not in running:
                cell = waiting.pop(0)
                running[slot] = cell, submit(cell, slot)
                bar.watched[cell] = 0
        for slot, (cell, job) in list(running.items()):
            if job.done():
                del running[slot]
                error = job.exception()
                if error is not None:
                    failed[cell] = f"job {job.job_id}: {str(error).strip().splitlines()[-1]}"
                bar.finish(cell, failed.get(cell))
        bar.look()
        if running:
            time.sleep(POLL)
    return failed


def _submitter(place: Place, how: Jobs) -> Callable[[Cell, int], Any]:
    try:
        import submitit
    except ImportError as error:
        raise ConfigError("jobs need submitit: pip install '.[cluster]'") from error
    absolute = place._replace(out=place.out.absolute())
    try:
        executor = submitit.AutoExecutor(absolute.root / "jobs" / "%j", cluster=how.cluster)
        executor.update_parameters(**how.parameters)
    except (RuntimeError, ValueError, TypeError, NameError) as error:
        told = " ".join(str(error).split())
        raise ConfigError(f"jobs cannot be submitted to {how.cluster}: {told}") from error

    def submit(cell: Cell, slot: int) -> Any:
        executor.update_parameters(name=cell.name)
        if how.cluster == "local" and count_accelerators() > 1:
            executor.update_parameters(gpus_per_node=1, local_visible_gpus=[slot])
        return executor.submit(Job(cell, absolute))

    return submit


def parse_parameters(pairs: Sequence[str]) -> dict[str, Any]:
    """Read submitit's names of sbatch options: partition=gpu, gpus_per_node=1, time=720."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not (key and sign and value):
            raise ConfigError(f"--slurm={pair}: expected key=value, such as partition=gpu")
        found[f"slurm_{key}"] = int(value) if value.isdigit() else value
    return found


def count_accelerators() -> int:
    """Count the GPUs of this machine (1 where there is none), without taking any of them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = chosen.split(",") if chosen else [str(f) for f in Path("/dev").glob("nvidia[0-9]*")]
    return max(1, len(names))
