"""The stage between encoder and policy: fit the task sampler, and keep task vectors of the data."""

from typing import Any

import jax

from zsrl_jax.devices import processes
from zsrl_jax.seeds import over_seeds
from zsrl_jax.tasks import SAMPLERS, behaviour_sizes, behaviour_tasks, centre_of
from zsrl_jax.td3 import PolicyData
from zsrl_jax.training import metrics
from zsrl_jax.training.divergence import nan_seeds
from zsrl_jax.training.encoded import DATA_AXES, see_behaviour
from zsrl_jax.training.loop import Stream, stream_keys
from zsrl_jax.training.run import Run
from zsrl_jax.training.stage import Work
from zsrl_jax.types import Encoder

NEAREST_OF = 100  # task vectors are kept per `infer.nearest`: a prompt averages a hundredth of them


def kept_tasks(run: Run) -> int:
    """Return how many task vectors of the data an agent keeps."""
    return max(run.config.tasks.num_subtrajectories, NEAREST_OF * run.config.infer.nearest)


def fit_tasks(run: Run, encoder: Encoder, data: PolicyData) -> tuple[Any, Any]:
    """Fit the sampler and draw task vectors of the data to keep, or load both from disk."""
    section = run.config.tasks
    sampler = SAMPLERS[section.sampler]
    kept = kept_tasks(run)

    def one(key_pool, key_fit, data):
        behaviour = see_behaviour(encoder, data)
        fitted = sampler.fit(key_fit, behaviour, section)
        return fitted, behaviour_tasks(key_pool, behaviour, section, centre_of(fitted), kept)

    fit = run.over_seeds(one, (0, 0, DATA_AXES))
    args = *(stream_keys(run.keys, stream) for stream in (Stream.TASK_POOL, Stream.TASK_FIT)), data
    like = jax.eval_shape(over_seeds(one, (0, 0, DATA_AXES)), *args)
    work = Work(run, "tasks", like, unit="fit")
    with metrics.progress("tasks", 1, work.done, run.quiet, unit="fit") as bar:
        if not work.done:
            run.forget_after("tasks")
            work.state, work.done = jax.block_until_ready(fit(*args)), 1
            for place, quantity in nan_seeds(run.local(work.state)).items():
                run.fail(place, "tasks", 1, quantity, 0)
            if hasattr(work.state[0], "trace"):
                run.log.write(0, _fit_quality(*run.local(work.state)))
            work.save()
            bar.update()
    processes.check()
    run.seconds["tasks"] = work.seconds()
    return work.state


def task_sizes(run: Run, encoder: Encoder, data: PolicyData) -> Any:
    """Return the size of the occupancy behind each task vector that `fit_tasks` keeps."""
    section = run.config.tasks

    def one(key, data):
        behaviour, centre = see_behaviour(encoder, data), centre_of(data.tasks)
        return behaviour_sizes(key, behaviour, section, centre, kept_tasks(run))

    keys = stream_keys(run.keys, Stream.TASK_POOL)
    return run.over_seeds(one, (0, DATA_AXES))(keys, data)


def _fit_quality(tasks: Any, pool: Any) -> dict[str, Any]:
    """Return the log-likelihood of the vectors the mixture was fitted to, and of unseen ones."""
    mixture = getattr(tasks, "other", tasks).mixture  # for `mix`, the mixture of its part
    unseen = over_seeds(lambda mixture, z: mixture.score(z), (0, 0))(mixture, pool)
    return {
        "tasks/log_likelihood": tasks.trace.log_likelihood[:, -1],
        "tasks/unseen_log_likelihood": unseen,
    }
