"""Scores during training: at once, or in a thread while the next chunks train.

A policy that is scored acts on the host's processor, whatever trains: on an accelerator each of its
thousands of steps would wait behind a chunk of updates. So scores are the same numbers either way.
The thread has a copy of the parameters. Its line waits for its place in the log, and later lines
wait behind it. A save waits for scores of earlier updates; scores of its own update, if they are
still on their way, are noted as to be done again. Several processes score at once, one after the
other: the others wait for the first, which decides whether the run goes on.
"""

import contextvars
import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from zsrl_jax.agent import Agent
from zsrl_jax.devices import precision, processes
from zsrl_jax.evaluation import evaluate
from zsrl_jax.oracle import Oracle
from zsrl_jax.training import streaming
from zsrl_jax.training.run import Run
from zsrl_jax.training.stage import OnChunk
from zsrl_jax.types import LearnerState


def make_scorer(run: Run, finish: Callable[[LearnerState], Agent | Oracle]) -> OnChunk | None:
    """Return what scores the policy every `evaluate.every` updates, or None."""
    section = run.config.evaluate
    if not section.every:
        return None
    pool = ThreadPoolExecutor(1, "score") if is_beside(section) else None

    def call(state: LearnerState, done: int) -> None:
        agent = finish(state)
        if pool is None:
            values = processes.first(lambda: score(on_host(agent), section))
            run.log.write(done, {name: np.asarray(value) for name, value in values.items()})
            return
        context = contextvars.copy_context()
        run.log.later(done, pool.submit(context.run, score, on_host(agent), section))

    return OnChunk(call, lambda done: done % section.every == 0)


def is_beside(section: ConfigDict) -> bool:
    """Tell whether scores are made in a thread: `auto` does so where an accelerator trains."""
    wanted = {"auto": jax.default_backend() != "cpu", "always": True, "never": False}
    return wanted[section.beside] and not processes.several()


def on_host(agent: Agent | Oracle) -> Agent | Oracle:
    """Return a copy of an agent on the host's processor: training overwrites the original's."""

    def copy(leaf: Any) -> Any:
        is_device = isinstance(leaf, jax.Array)
        return jax.device_put(np.array(leaf), streaming.host()) if is_device else leaf

    with precision.traced_for("cpu"):  # a new agent chooses how its seeds run
        return dataclasses.replace(agent, params=jax.tree.map(copy, agent.params))


def score(agent: Agent | Oracle, section: ConfigDict) -> dict[str, list[float]]:
    """Return the mean score of each task, and of all, by seed."""
    with precision.traced_for("cpu"), jax.default_device(streaming.host()):
        scores = evaluate(agent, episodes=section.episodes, seed=section.seed, progress=False)
    values = {
        f"evaluate/{task}": scores.returns[:, i].mean(axis=-1)
        for i, task in enumerate(scores.tasks)
    }
    values["evaluate/mean"] = scores.returns.mean(axis=(1, 2))
    return {name: value.tolist() for name, value in values.items()}
