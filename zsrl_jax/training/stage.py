"""One stage of training: updates in chunks, from its newest good save, with bar, log and saves.

A save carries the settings that it was made with (`runs.identity`). A run with the same settings
goes on from it and ends as if it had never stopped. Any other run was refused before this point.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from zsrl_jax.devices import precision, processes, signals
from zsrl_jax.errors import DivergedError
from zsrl_jax.runs import checkpoint, step_saves
from zsrl_jax.seeds import pick_seed
from zsrl_jax.training import metrics
from zsrl_jax.training.divergence import guard, locate
from zsrl_jax.training.loop import Stream, make_loop, stream_keys
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
        """Save the state, with all that a run needs to go on from it."""
        state = self.run.local(self.state)
        processes.first(lambda: self._write(state))
        self.saved = self.done

    def _write(self, state: Any) -> None:
        self.run.take_over()
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

    def seconds(self) -> float:
        """Return the time spent on this stage, including earlier runs."""
        worked = self.done > self.found
        return round(self.spent + (time.monotonic() - self.start if worked else 0.0), 1)


def learn(
    run: Run,
    stage: str,
    learner: Encoder | Policy,
    feed: Feed,
    on_chunk: Callable[[LearnerState, int], None] | None = None,
) -> LearnerState:
    """Train a stage to its last update, for all seeds, and return its state."""
    config, total = run.config, run.config[stage].updates
    key_init, key_loop = (stream_keys(run.keys, stream) for stream in STREAMS[stage])
    work = Work(run, stage, run.over_seeds(learner.init, (0,))(key_init))
    advance = _make_advance(run, learner, feed, key_loop)
    if work.done < total:
        run.forget_after(stage)
    refuse_if_all_failed(run)

    def after_chunk() -> None:
        """Do what follows a chunk; after a signal, the run that goes on from here does it."""
        work.pending = on_chunk is not None
        try:
            processes.check()
            if on_chunk is not None:
                on_chunk(work.state, work.done)
        except signals.Stopped:
            work.save()
            raise
        work.pending = False
        due = work.done - work.saved >= config.checkpoint_every or work.done >= total
        if due or run.all_failed():
            work.save()

    with metrics.progress(stage, total, work.done, run.quiet) as bar:
        if work.pending:
            after_chunk()
        while work.done < total:
            length = min(config.log_every - work.done % config.log_every, total - work.done)
            values = advance(work, length)
            run.log.write(work.done, values)
            metrics.show(bar, values, SHOWN.get(stage, ()))
            bar.update(length)
            after_chunk()
            refuse_if_all_failed(run)
    run.seconds[stage] = work.seconds()
    return work.state


def _make_advance(run: Run, learner: Encoder | Policy, feed: Feed, keys: jax.Array) -> Callable:
    """Make advance(work, length) -> metrics: one chunk, compiled once per length."""
    programs: dict[int, Callable] = {}
    learner = learner._replace(sample=feed.sample_of(learner))
    axes, products = feed.seed_axes(), run.config.get("precision", precision.EXACT)

    def play(work: Work, start: int, length: int, part: Any) -> dict[str, np.ndarray]:
        if length not in programs:
            loop = guard(make_loop(learner.sample, learner.update, length))
            programs[length] = run.over_seeds(
                loop, (0, 0, axes, None, 0), donate=(0,), products=products
            )
        alive = np.array([i not in run.failed for i in range(len(keys))])
        args = keys, part, jnp.asarray(start), jnp.asarray(alive)
        work.state, values, good = programs[length](work.state, *args)
        values, good = jax.device_get(run.local((values, good)))
        work.done += length
        for place in np.flatnonzero(alive & ~good).tolist():
            state, read = run.local((work.state, part))
            mine = (pick_seed(state, 0, place), keys[place], pick_seed(read, axes, place))
            find = precision.bind(locate, products)
            step, quantity = find(learner, *mine, range(start, work.done))
            run.fail(place, work.stage, step, quantity, start)
        return values

    def advance(work: Work, length: int) -> dict[str, np.ndarray]:
        seen = [
            jax.tree.map(lambda x, share=num / length: x * share, play(work, first, num, part))
            for first, num, part in feed.windows(keys, work.done, length)
        ]
        return jax.tree.map(lambda *parts: sum(parts), *seen)

    return advance


def refuse_if_all_failed(run: Run) -> None:
    """Raise if no seed is left to train."""
    if run.all_failed():
        told = "; ".join(str(failure) for failure in run.failed.values())
        raise DivergedError(
            f"{told}; no seed is left: try a lower learning rate in another --workdir"
        )
