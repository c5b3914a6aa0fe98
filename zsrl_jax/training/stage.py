"""One stage of training: updates in chunks, from its newest good save, with bar, log and saves.

A save carries the settings that it was made with (`runs.identity`). A run with the same settings
goes on from it and ends as if it had never stopped. Any other run was refused before this point.
"""

import math
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from zsrl_jax.devices import processes, signals
from zsrl_jax.errors import DivergedError
from zsrl_jax.runs import checkpoint, step_saves
from zsrl_jax.training import metrics
from zsrl_jax.training.chunks import Chunks
from zsrl_jax.training.loop import Stream, stream_keys
from zsrl_jax.training.run import Run
from zsrl_jax.training.streaming import Feed
from zsrl_jax.types import Encoder, Failure, LearnerState, Policy

STREAMS = {  # stage -> streams of its initial parameters and of its updates
    "encoder": (Stream.ENCODER_INIT, Stream.ENCODER_UPDATES),
    "policy": (Stream.POLICY_INIT, Stream.POLICY_UPDATES),
}
SHOWN = {
    "encoder": ("encoder/loss", "encoder/effective_rank"),
    "policy": ("policy/critic_loss", "policy/q", "policy/saturated"),
}


class Work:
    """Where a stage stands: its state, the updates done, and the saves known to be good."""

    def __init__(self, run: Run, stage: str, like: Any, unit: str = "update"):
        self.run, self.stage, self.state, self.start = run, stage, like, time.monotonic()
        self.done, self.saved, self.found, self.spent, self.pending = 0, 0, 0, 0.0, False
        self.good: list[int] = []
        save = step_saves.Save(*processes.first(self._find))
        if save.folder is None:
            return
        self.state = checkpoint.restore(save.folder, like, checked=processes.is_first())
        self.done = self.saved = self.found = save.step
        self.good, self.spent = [save.step], save.meta["seconds"]
        self.pending = save.meta["pending"]
        run.log.go_on_from(save.meta["metrics"])
        run.failed.update({int(i): Failure(**f) for i, f in save.meta["failed"].items()})
        if not run.quiet:
            print(f"{stage}: goes on from {unit} {save.step} ('{save.folder}')")

    def _find(self) -> list[Any]:
        """Return the newest good save as JSON; print those that are not good."""
        save = step_saves.newest(self.run.workdir / self.stage)
        for line in save.passed:
            print(f"{self.stage}: {line}; it is skipped", file=sys.stderr)
        return [None if save.folder is None else str(save.folder), *save[1:]]

    def save(self) -> None:
        """Save the state, with all that a run needs to go on from it.

        Scores of this very update that are not there yet are noted as to be made again.
        """
        self.run.log.release(before=self.done)
        self.pending = self.pending or self.run.log.holds()
        state = self.run.local(self.state)
        processes.first(lambda: self._write(state))
        self.saved = self.done

    def _write(self, state: Any) -> None:
        self.run.mark_saves()
        folder = self.run.workdir / self.stage
        meta = {
            "facts": self.run.asked.facts(self.stage),
            "seconds": self.seconds(),
            "metrics": self.run.log.position(),
            "failed": {str(i): f._asdict() for i, f in self.run.failed.items()},
            "pending": self.pending,
            "forced": step_saves.newest(folder, whole=False).meta.get("forced", []),
        }
        self.good = step_saves.write(folder, self.done, state, meta, self.good)

    def is_due(self, done: int) -> bool:
        """Tell whether a save is due after so many updates."""
        return done - self.saved >= self.run.config.checkpoint_every

    def seconds(self) -> float:
        """Return the time spent on this stage, including earlier runs."""
        worked = self.done > self.found
        return round(self.spent + (time.monotonic() - self.start if worked else 0.0), 1)


class OnChunk(NamedTuple):
    """What is done with the state after a chunk: where it is due, nothing is sent ahead."""

    call: Callable[[LearnerState, int], None]
    is_due: Callable[[int], bool] = lambda done: True


def learn(
    run: Run,
    stage: str,
    learner: Encoder | Policy,
    feed: Feed,
    on_chunk: OnChunk | None = None,
) -> LearnerState:
    """Train a stage to its last update, for all seeds, and return its state."""
    config, total = run.config, run.config[stage].updates
    key_init, key_loop = (stream_keys(run.keys, stream) for stream in STREAMS[stage])
    work = Work(run, stage, run.over_seeds(learner.init, (0,))(key_init))
    if work.done < total:
        run.forget_after(stage)
    refuse_if_all_failed(run)
    chunks = Chunks(work, learner, feed, key_loop)

    with metrics.progress(stage, total, work.done, run.quiet) as bar:
        if work.pending:
            _after_chunk(work, on_chunk, total)
        while work.done < total:
            if _may_send(work, chunks, on_chunk, total):
                chunks.send(min(config.log_every - chunks.sent % config.log_every,
                                total - chunks.sent))  # fmt: skip
            else:
                chunks.settle()
            while chunks.landed:
                done, values = chunks.landed.popleft()
                run.log.write(done, values)
                metrics.show(bar, values, SHOWN.get(stage, ()))
                bar.update(done - work.done)
                work.done = done
                if run.all_failed():
                    chunks.drop()
                if work.done == chunks.sent:
                    _after_chunk(work, on_chunk, total)
                refuse_if_all_failed(run)
    run.seconds[stage] = work.seconds()
    return work.state


def _may_send(work: Work, chunks: Chunks, on_chunk: OnChunk | None, total: int) -> bool:
    """Tell whether a chunk may follow those that are on their way: nothing needs their state."""
    if not chunks.flying or chunks.sent >= total:
        return not chunks.flying
    due = work.is_due(chunks.sent) or (on_chunk is not None and on_chunk.is_due(chunks.sent))
    return not due and not signals.noted()


def _after_chunk(work: Work, on_chunk: OnChunk | None, total: int) -> None:
    """Do what follows a chunk; after a signal, the run that goes on from here does it."""
    work.pending = on_chunk is not None and on_chunk.is_due(work.done)
    try:
        processes.check()
        if on_chunk is not None and work.pending:
            on_chunk.call(work.state, work.done)
    except signals.Stopped:
        work.run.log.release(before=math.inf)
        work.save()
        raise
    work.pending = False
    if work.done >= total:
        work.run.log.release(before=math.inf)
    if work.is_due(work.done) or work.done >= total or work.run.all_failed():
        work.save()


def refuse_if_all_failed(run: Run) -> None:
    """Raise if no seed is left to train."""
    if run.all_failed():
        told = "; ".join(str(failure) for failure in run.failed.values())
        raise DivergedError(
            f"{told}; no seed is left: try a lower learning rate in another --workdir"
        )
