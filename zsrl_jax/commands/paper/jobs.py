"""Cells as jobs through submitit: on SLURM, or on this machine, one per accelerator or core.

An encoder runs before the cells that use it. The first encoder of a collection runs before all
others of it, so that data is collected once. A job that is preempted or out of time is queued again
and goes on from its saves.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zsrl_jax.commands.paper.cells import Cell, Place
from zsrl_jax.commands.paper.launch import accelerators
from zsrl_jax.commands.paper.progress import Progress, cost
from zsrl_jax.commands.paper.work import do
from zsrl_jax.devices import signals
from zsrl_jax.errors import ConfigError
from zsrl_jax.files.atomic import write_text

POLL = 2.0  # seconds between two looks at jobs
GRACE = 600.0  # seconds that a stopped and saved job waits for SLURM to end it
REQUEUES = 1000  # of a job that runs out of time; it goes on from its last save


class Job:
    """A cell as a job; submitted again after preemption, it goes on from the cell's saves."""

    def __init__(
        self, cell: Cell, place: Place, cores: frozenset[int] = frozenset(), device: str = ""
    ):
        self.cell, self.place, self.cores, self.device = cell, place, cores, device

    def __call__(self) -> str:
        """Complete the cell; if SLURM sends a signal, save and wait to be ended.

        A preempted job gets SIGTERM first. It must not end by itself then, or SLURM counts it as
        finished. Then SLURM kills it and queues it again (preemption), or only kills it (scancel).
        """
        if self.cores:  # before JAX counts them for its threads
            os.sched_setaffinity(0, self.cores)
        if self.device:  # before JAX looks for one; submitit hides those it does not know of
            os.environ["CUDA_VISIBLE_DEVICES"] = self.device
        try:
            with signals.caught():
                return str(do(self.cell, self.place))
        except signals.Stopped:
            if os.environ.get("SUBMITIT_EXECUTOR") == "slurm":
                time.sleep(GRACE)
            raise

    def checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Return to submitit what to run when the job is requeued: the same job."""
        import submitit

        same = Job(self.cell, self.place, self.cores, self.device)
        return submitit.helpers.DelayedSubmission(same)


class Jobs(NamedTuple):
    """How jobs are submitted."""

    cluster: str  # local or slurm
    at_once: int  # 0: as many as the queue takes
    parameters: dict[str, Any]  # of submitit's executor
    cores: tuple[frozenset[int], ...] = ()  # of each of the cells at once; empty: any


def run_jobs(cells: Sequence[Cell], place: Place, bar: Progress, how: Jobs) -> dict[Cell, str]:
    """Complete cells as jobs, each after those it needs; return what failed, and why."""
    submit = _submitter(place, how)
    first = {collection_of(cell): cell for cell in reversed(cells) if cell.kind == "encoder"}
    waiting = sorted(cells, key=lambda cell: (cell.collection or 0, cell.kind != "encoder",
                                              -cost(cell, place)))  # fmt: skip
    failed: dict[Cell, str] = {}
    running: dict[int, tuple[Cell, Any]] = {}
    while waiting or running:
        _stop_if_asked([job for _, job in running.values()], how)
        for slot in range(how.at_once or len(cells)):
            undone = {*waiting, *(cell for cell, _ in running.values())}
            ready = [cell for cell in waiting if not needs(cell, first) & undone]
            if ready and slot not in running:
                waiting.remove(cell := ready[0])
                alone = list(first.values()) == [cell]  # others wait for its data
                cores = frozenset() if alone or not how.cores else how.cores[slot]
                running[slot] = cell, submit(cell, slot, cores)
                bar.start(cell)
        for slot, (cell, job) in list(running.items()):
            if job.done():
                del running[slot]
                if (error := job.exception()) is not None:
                    failed[cell] = f"job {job.job_id}: {reason(error)}"
                elif not _is_there(cell, place):
                    failed[cell] = f"job {job.job_id} left no results of these settings"
                bar.finish(cell, failed.get(cell))
        orphans = [cell for cell in waiting if cell.encoder_cell() in failed]
        for cell in orphans:
            failed[cell] = "its encoder failed"
            waiting.remove(cell)
            bar.finish(cell, failed[cell])
        bar.look()
        if running:
            time.sleep(POLL)
    return failed


def _is_there(cell: Cell, place: Place) -> bool:
    """Tell whether a job's results exist; a shared file system may show them late."""
    for wait in (0.0, POLL, 5 * POLL):
        time.sleep(wait)
        if cell.is_done(place):
            return True
    return False


def reason(error: BaseException) -> str:
    """Return the line that says why a job failed; submitit adds its files' names below it."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    rules = [place for place, line in enumerate(lines) if set(line) == {"-"}]
    return lines[rules[-1] - 1] if rules and rules[-1] else (lines or [type(error).__name__])[-1]


def collection_of(cell: Cell) -> tuple[str, int]:
    """Return which data a cell reads."""
    return cell.domain, cell.collection or 0


def needs(cell: Cell, first: dict[tuple[str, int], Cell]) -> set[Cell]:
    """Return the cells that must end before this one: its encoder, and the one that collects."""
    found = {cell.encoder_cell(), first.get(collection_of(cell))} - {None, cell}
    return {other for other in found if other is not None}


def _stop_if_asked(jobs: list[Any], how: Jobs) -> None:
    """Stop after a signal: jobs on this machine save and end, those in a queue go on."""
    try:
        signals.check()
    except signals.Stopped:
        while how.cluster == "local" and (left := [job for job in jobs if not job.done()]):
            for job in left:  # repeatedly: a job that starts only now misses the first
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(job.job_id), signal.SIGTERM)
            time.sleep(POLL)
        if how.cluster == "slurm":
            print(f"\n{len(jobs)} jobs go on without this command; it finds them when it is "
                  "started again", file=sys.stderr)  # fmt: skip
        raise


def _submitter(place: Place, how: Jobs) -> Callable[..., Any]:
    try:
        import submitit
    except ImportError as error:
        raise ConfigError("jobs need submitit: pip install 'zsrl_jax[cluster]'") from error
    absolute = place._replace(out=place.out.absolute())
    try:
        folder = absolute.root / "jobs"
        executor = submitit.AutoExecutor(
            folder / "%j", cluster=how.cluster, slurm_max_num_timeout=REQUEUES
        )
        executor.update_parameters(**how.parameters)
    except (RuntimeError, ValueError, TypeError, NameError) as error:
        told = " ".join(str(error).split())
        raise ConfigError(f"jobs cannot be submitted to {how.cluster}: {told}") from error

    def submit(cell: Cell, slot: int, cores: frozenset[int] = frozenset()) -> Any:
        file = folder / f"{cell.kind}_{cell.name}.id"
        if how.cluster == "slurm" and (known := queued(file)):
            return submitit.SlurmJob(folder / "%j", known)
        executor.update_parameters(name=cell.name)
        names = accelerators() if how.cluster == "local" else []
        device = names[slot % len(names)] if names else ""
        job = executor.submit(Job(cell, absolute, cores, device))
        write_text(file, job.job_id)
        return job

    return submit


def queued(file: Path) -> str:
    """Return the job that an earlier command submitted, if it is still in SLURM's queue."""
    known = file.read_text().strip() if file.exists() else ""
    if not known:
        return ""
    told = subprocess.run(["squeue", "-h", "-j", known, "-o", "%T"], capture_output=True, text=True)
    return known if told.stdout.strip() else ""


def parse_parameters(pairs: Sequence[str]) -> dict[str, Any]:
    """Read submitit's names of sbatch options: partition=gpu, gpus_per_node=1, time=720."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not (key and sign and value):
            raise ConfigError(f"--slurm={pair}: expected key=value, such as partition=gpu")
        found[f"slurm_{key}"] = int(value) if value.isdigit() else value
    return found
