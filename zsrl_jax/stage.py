"""One stage of training: its updates in chunks, from its newest good save, with bar, log and saves.

A save carries the facts that decided it (`facts`). A run whose facts are the same goes on from
there and ends as if it had never stopped; another was refused before (`resume`).
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from zsrl_jax import checkpoint, feed, hosts, mesh, metrics, precision, saves, signals, takeover
from zsrl_jax.divergence import Failure, guard, locate
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import DivergedError
from zsrl_jax.facts import STAGES, facts
from zsrl_jax.loop import make_loop, over_seeds, pick_seed, stage_keys
from zsrl_jax.types import Encoder, LearnerState, Policy

SHOWN = {
    "encoder": ("encoder/loss", "encoder/effective_rank"),
    "policy": ("policy/critic_loss", "policy/q", "policy/saturated"),
}


def is_own(config: ConfigDict) -> bool:
    """Tell whether the encoder's own policy is the final one, and no other is trained."""
    return config.policy.get("kind", "td3") == "own"


def cell_name(config: ConfigDict) -> str:
    """Name the cell of the study that a config is: it names the run folder."""
    if "oracle" in config:
        tasks = tuple(config.oracle.tasks)
        named = () if tasks == tuple(DOMAINS[config.domain].tasks) else tasks
        return "_".join([config.domain, "oracle", *named])
    sampler = "own" if is_own(config) else config.tasks.sampler
    return f"{config.domain}_{config.encoder.name}_{sampler}"


class Run(NamedTuple):
    """What every stage needs of a run."""

    config: ConfigDict
    workdir: Path
    log: metrics.Log
    keys: jax.Array
    seconds: dict[str, float]
    fingerprint: str  # of the data
    quiet: bool  # no bars
    failed: dict[int, Failure]  # by place of the seed in the run
    mesh: Mesh | None = None  # more devices than one

    def over_seeds(self, function: Callable, in_axes: tuple, **how: Any) -> Callable:
        """Compile a function of one seed for all of this run's, on all of its devices."""
        return over_seeds(function, in_axes, mesh=self.mesh, **how)

    def local(self, tree: Any) -> Any:
        """Bring what lies on the run's devices to the first one here."""
        return mesh.local(tree, self.mesh)

    def facts(self, stage: str) -> dict[str, Any]:
        """Return all that decides a stage's result."""
        return facts(self.config, stage, self.fingerprint)

    def asked(self, stage: str) -> tuple[Path, dict[str, Any], int | None]:
        """Return a stage's folder, and what its saves must be of."""
        return self.workdir / stage, self.facts(stage), self.config[stage].get("updates")

    def fail(self, place: int, stage: str, step: int, quantity: str, kept: int) -> None:
        """Give up a seed, and say so: where it stopped being finite, and what is kept of it."""
        if place not in self.failed:
            lanes = len(self.keys) // self.config.seeds  # an oracle has one for each task
            told = f"{quantity} of task {place % lanes}" if lanes > 1 else quantity
            failure = Failure(self.config.seed + place // lanes, stage, step, told, kept)
            self.failed[place] = failure
            if hosts.is_first():
                print(f"\n{failure}", file=sys.stderr)

    def all_failed(self) -> bool:
        """Tell whether no seed is left."""
        return len(self.failed) == len(self.keys)

    def take_over(self) -> None:
        """Mark saves of other facts as this run's, by force: once all that it keeps were read."""
        if not hosts.is_first():
            return
        for stage in STAGES[1:]:
            if stage in self.config:
                takeover.accept(*self.asked(stage))

    def forget_after(self, stage: str) -> None:
        """Delete what an earlier run built on a stage that now has work to do."""
        if not hosts.is_first():
            return
        for name in (*STAGES[STAGES.index(stage) + 1 :], "agent", "results.json"):
            checkpoint.discard(self.workdir / name)


class Work:
    """Where a stage stands: its state, the updates done, and the saves known to be good."""

    def __init__(self, run: Run, stage: str, like: Any, unit: str = "update"):
        self.run, self.stage, self.state, self.start = run, stage, like, time.monotonic()
        self.done, self.saved, self.found, self.spent, self.pending = 0, 0, 0, 0.0, False
        self.good: list[int] = []
        save = saves.Save(*hosts.first(self._find))
        if save.folder is None:
            return
        self.state = checkpoint.restore(save.folder, like)
        self.done = self.saved = self.found = save.step
        self.good, self.spent = [save.step], save.meta["seconds"]
        self.pending = save.meta["pending"]
        run.log.go_on_from(save.meta["metrics"])
        run.failed.update({int(i): Failure(**f) for i, f in save.meta["failed"].items()})
        if not run.quiet:
            print(f"{stage}: goes on from {unit} {save.step} ('{save.folder}')")

    def _find(self) -> list[Any]:
        """Return the newest good save as JSON has it; tell of those that are not good."""
        save = saves.newest(self.run.workdir / self.stage)
        for line in save.passed:
            print(f"{self.stage}: {line}; it is passed over", file=sys.stderr)
        return [None if save.folder is None else str(save.folder), *save[1:]]

    def save(self) -> None:
        """Save the state, with all that a run needs to go on from it."""
        state = self.run.local(self.state)
        hosts.first(lambda: self._write(state))
        self.saved = self.done

    def _write(self, state: Any) -> None:
        self.run.take_over()
        folder = self.run.workdir / self.stage
        meta = {
            "facts": self.run.facts(self.stage),
            "seconds": self.seconds(),
            "metrics": self.run.log.position(),
            "failed": {str(i): f._asdict() for i, f in self.run.failed.items()},
            "pending": self.pending,
            "forced": saves.newest(folder, whole=False).meta.get("forced", []),
        }
        self.good = saves.write(folder, self.done, state, meta, self.good)

    def seconds(self) -> float:
        """Return the time spent on this stage, by earlier runs too."""
        worked = self.done > self.found
        return round(self.spent + (time.monotonic() - self.start if worked else 0.0), 1)


def learn(
    run: Run,
    stage: str,
    learner: Encoder | Policy,
    data: Any,
    data_axes: Any = None,
    on_chunk: Callable[[LearnerState, int], None] | None = None,
) -> LearnerState:
    """Take a stage to its last update, for all seeds, and return its state."""
    config, total = run.config, run.config[stage].updates
    key_init, key_loop = (stage_keys(run.keys, 2 * STAGES.index(stage) + i) for i in range(2))
    work = Work(run, stage, run.over_seeds(learner.init, (0,))(key_init))
    advance = _make_advance(run, learner, data, data_axes, key_loop)
    if work.done < total:
        run.forget_after(stage)
    refuse_if_all_failed(run)

    def after_chunk() -> None:
        """Do what belongs to a chunk; a signal leaves it to the run that goes on from here."""
        work.pending = on_chunk is not None
        try:
            hosts.check()
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


def _make_advance(
    run: Run, learner: Encoder | Policy, data: Any, data_axes: Any, keys: jax.Array
) -> Callable:
    """Make advance(work, length) -> metrics: one chunk, compiled once for each length."""
    programs: dict[int, Callable] = {}
    learner = learner._replace(sample=feed.sampling(learner, data))
    axes, products = feed.axes(data, data_axes), run.config.get("precision", precision.EXACT)

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
            for first, num, part in feed.pieces(data, keys, work.done, length)
        ]
        return jax.tree.map(lambda *parts: sum(parts), *seen)

    return advance


def refuse_if_all_failed(run: Run) -> None:
    """Stop where no seed is left to train."""
    if run.all_failed():
        told = "; ".join(str(failure) for failure in run.failed.values())
        raise DivergedError(
            f"{told}; no seed is left: try a lower learning rate, in another --workdir"
        )
