"""The stage between encoder and policy: fit the task sampler, and keep task vectors of the data."""

from collections.abc import Callable
from typing import Any

import jax
from ml_collections import ConfigDict

from zsrl_jax import gmm
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


def kept_tasks(config: ConfigDict) -> int:
    """Return how many task vectors of the data an agent keeps."""
    return max(config.tasks.num_subtrajectories, NEAREST_OF * config.infer.nearest)


def make_fit(encoder: Encoder, config: ConfigDict) -> Callable:
    """Make fit(key_pool, key_fit, data) -> the fitted sampler, and task vectors of the data."""
    section, sampler, kept = config.tasks, SAMPLERS[config.tasks.sampler], kept_tasks(config)

    def fit(key_pool, key_fit, data):
        behaviour = see_behaviour(encoder, data)
        fitted = sampler.fit(key_fit, behaviour, section)
        return fitted, behaviour_tasks(key_pool, behaviour, section, centre_of(fitted), kept)

    return fit


def make_sizes(encoder: Encoder, config: ConfigDict) -> Callable:
    """Make sizes(key, data) -> the size of the occupancy behind each task vector that is kept."""
    section, kept = config.tasks, kept_tasks(config)

    def sizes(key, data):
        behaviour, centre = see_behaviour(encoder, data), centre_of(data.tasks)
        return behaviour_sizes(key, behaviour, section, centre, kept)

    return sizes


def fit_tasks(run: Run, encoder: Encoder, data: PolicyData) -> tuple[Any, Any]:
    """Fit the sampler and draw task vectors of the data to keep, or load both from disk."""
    one = make_fit(encoder, run.config)
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
    keys = stream_keys(run.keys, Stream.TASK_POOL)
    return run.over_seeds(make_sizes(encoder, run.config), (0, DATA_AXES))(keys, data)


def _direction_score(mixture: Any, z: Any) -> Any:
    """Return the log-likelihood of directions, which any two mixtures can be compared by."""
    if isinstance(mixture, gmm.Mixture):
        return gmm.projected_score(mixture, z)
    return mixture.score(z[: gmm.projected.LARGEST])


def _fit_quality(tasks: Any, pool: Any) -> dict[str, Any]:
    """Return the log-likelihood of the vectors the mixture was fitted to, and of unseen ones."""
    mixture = getattr(tasks, "other", tasks).mixture  # for `mix`, the mixture of its part
    unseen = over_seeds(lambda mixture, z: mixture.score(z), (0, 0))(mixture, pool)
    direction = over_seeds(_direction_score, (0, 0))(mixture, pool)
    return {
        "tasks/unseen_direction_log_likelihood": direction,
        "tasks/log_likelihood": tasks.trace.log_likelihood[:, -1],
        "tasks/unseen_log_likelihood": unseen,
    }
