"""One stage of training: its updates in chunks, from its last checkpoint, with bar, log and saves.

A checkpoint carries a checksum of all that decided it (the data, the config of this stage and of
those before it, the seeds). A stage whose checksum is the same goes on from there; any other
starts anew.
"""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from zsrl_jax import checkpoint, metrics
from zsrl_jax.loop import make_loop, over_seeds, stage_keys
from zsrl_jax.types import Encoder, LearnerState, Policy

STAGES = ("data", "encoder", "tasks", "policy")
SHOWN = {
    "encoder": ("encoder/loss", "encoder/effective_rank"),
    "policy": ("policy/critic_loss", "policy/q", "policy/saturated"),
}


class Run(NamedTuple):
    """What every stage needs of a run."""

    config: ConfigDict
    workdir: Path
    log: metrics.Log
    keys: jax.Array
    seconds: dict[str, float]
    fingerprint: str  # of the data
    quiet: bool  # no bars

    def identity(self, stage: str) -> str:
        """Return a checksum of all that decides a stage's result."""
        sections = STAGES[1 : STAGES.index(stage) + 1]
        facts = {name: self.config[name].to_dict() for name in sections}
        facts |= {"seeds": [self.config.seed, self.config.seeds], "data": self.fingerprint}
        facts["normalize"] = self.config.data.normalize
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
    meta = checkpoint.read_meta(folder) or {}
    done = 0
    if meta.get("identity") == run.identity(stage):
        state, done = checkpoint.restore(folder, state), meta["step"]
    saved, programs = done, {}
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
                checkpoint.save(folder, state, {"identity": run.identity(stage), "step": done})
                saved = done
    run.seconds[stage] = time.monotonic() - start
    return state
