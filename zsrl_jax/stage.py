"""One stage of training: its updates in chunks, from its last checkpoint, with bar, log and saves.

A checkpoint carries a checksum of all that decided it (the data, the config of this stage and of
those before it, the seeds). A stage whose checksum is the same goes on from there; any other
starts anew.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from zsrl_jax import checkpoint, metrics
from zsrl_jax.envs import DOMAINS
from zsrl_jax.loop import make_loop, over_seeds, stage_keys
from zsrl_jax.types import Encoder, LearnerState, Policy

FORMAT = 1  # raised when the mathematics of a stage changes: older checkpoints start anew
STAGES = ("data", "encoder", "tasks", "policy")
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

    def start(self, stage: str, done: int) -> None:
        """Forget what an earlier run left behind this point: its agent, scores and metrics."""
        if done < self.config[stage].updates:
            shutil.rmtree(self.workdir / "agent", ignore_errors=True)
            (self.workdir / "results.json").unlink(missing_ok=True)
            self.log.forget(stage, done)

    def identity(self, stage: str) -> str:
        """Return a checksum of all that decides a stage's result."""
        sections = STAGES[1 : STAGES.index(stage) + 1]
        facts = {n: self.config[n].to_dict() for n in (*sections, "oracle") if n in self.config}
        facts |= {"seeds": [self.config.seed, self.config.seeds], "data": self.fingerprint}
        facts["normalize"] = [self.config.data.normalize, self.config.data.clip]
        facts["format"] = FORMAT
        text = json.dumps(facts, sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


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
    folder, start = run.workdir / stage, time.monotonic()
    key_init, key_loop = (stage_keys(run.keys, 2 * STAGES.index(stage) + i) for i in range(2))
    state = over_seeds(learner.init, (0,))(key_init)
    meta, done, before = checkpoint.read_meta(folder), 0, 0.0
    if meta and meta["identity"] == run.identity(stage):
        state, done, before = checkpoint.restore(folder, state), meta["step"], meta["seconds"]
    elif meta:
        print(f"{stage}: '{folder}' is of another config, data or version; starting anew")
    run.start(stage, done)
    saved, programs = done, {}

    def save():
        spent = before + time.monotonic() - start
        facts = {"identity": run.identity(stage), "step": done, "seconds": round(spent, 1)}
        checkpoint.save(folder, state, facts)

    with metrics.progress(stage, total, done, run.quiet) as bar:
        while done < total:
            length = min(config.log_every, total - done)
            if length not in programs:
                loop = make_loop(learner.sample, learner.update, length)
                programs[length] = over_seeds(loop, (0, 0, data_axes, None), donate=(0,))
            state, values = programs[length](state, key_loop, data, jnp.asarray(done))
            values = jax.device_get(values)
            done += length
            run.log.write(done, values)
            metrics.show(bar, values, SHOWN[stage])
            bar.update(length)
            if on_chunk is not None:
                on_chunk(state, done)
            if done - saved >= config.checkpoint_every or done == total:
                save()
                saved = done
    run.seconds[stage] = round(before + time.monotonic() - start, 1)
    return state
