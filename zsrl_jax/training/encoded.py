"""The features of the data under a trained and frozen encoder, for tasks and policy.

phi of every state (if it fits into memory), its mean, and R^2 of each test task's reward.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from ml_collections import ConfigDict

from zsrl_jax import td3
from zsrl_jax.data import Dataset, Normalizer, fit_normalizer
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.encoders.base import reached_features, row_features
from zsrl_jax.envs import DOMAINS, relabel
from zsrl_jax.prompts import task_vector
from zsrl_jax.settings.names import is_own
from zsrl_jax.tasks import Behaviour
from zsrl_jax.training import streaming
from zsrl_jax.training.loop import Stream, stream_keys
from zsrl_jax.training.run import Run
from zsrl_jax.training.stage import learn
from zsrl_jax.types import Encoder, Store

OWN: Any = 0
SHARED: Any = None
ONE_BY_ONE = (
    "map"  # seeds in one batch need all features twice, to bring the seed axis to the front
)
DATA_AXES = td3.PolicyData(store=SHARED, phi=OWN, encoder=OWN, mean=OWN, tasks=OWN)


class Encoded(NamedTuple):
    """The data's features under a trained and frozen encoder, for every seed."""

    encoder: Encoder
    data: td3.PolicyData  # without tasks yet
    normalizer: Normalizer
    hosted: bool = False  # the store is on the host, because the device is too small


def encode(run: Run, dataset: Dataset) -> Encoded:
    """Train the encoder, freeze it, and compute the data's features."""
    config = run.config
    normalizer = fit_normalizer(dataset, config.data.normalize, config.data.clip)
    encoder = ENCODERS[config.encoder.name].make(config.encoder, dataset.spec)
    store, feed = streaming.place(config.data, dataset, normalizer, encoder.sample, run.mesh)
    hosted = isinstance(feed, streaming.Hosted)
    learnt = learn(run, "encoder", encoder, feed).params
    learnt = jax.device_put(learnt, streaming.host()) if hosted else learnt
    keys = stream_keys(run.keys, Stream.FREEZE)
    frozen = run.over_seeds(encoder.freeze, (0, 0, None))(keys, learnt, store)
    obs, physics = prompt_states(config, dataset)
    seen = [normalizer(x) for x in (states_before(config, dataset, encoder), obs) if x is not None]
    report_r2(run, encoder, frozen, seen, physics, dataset.domain)
    data = _policy_data(run, encoder, frozen, store, hosted)
    return Encoded(encoder, data, normalizer, hosted)


def see_behaviour(encoder: Encoder, data: td3.PolicyData) -> Behaviour:
    """Return the data's features: stored ones if there are any, else computed on the fly."""

    def phi(episode):
        if data.phi is not None:
            return data.phi[episode]
        return row_features(encoder, data.encoder, data.store.obs[episode])

    return Behaviour(phi, data.store.length, data.mean.shape[0], int(encoder.of_transitions))


def _policy_data(
    run: Run, encoder: Encoder, frozen: Any, store: Store, hosted: bool
) -> td3.PolicyData:
    """Compute features if they fit into memory, and their mean, for every seed."""
    config = run.config
    phi = None
    if stores_features(config, store.obs.shape) and not hosted:
        phi = run.over_seeds(make_all_features(encoder), (0, None), how=ONE_BY_ONE)(
            frozen, store.obs
        )
    mean = make_mean(encoder, config.encoder.dim)
    centre = run.over_seeds(mean, (0, None))(frozen, store)
    centre = centre if config.policy.center_reward else jnp.zeros_like(centre)
    return td3.PolicyData(store, phi, frozen, centre, None)


def stores_features(config: ConfigDict, shape: tuple[int, ...]) -> bool:
    """Tell whether the features of states [episode, row, ...] fit into `policy.feature_gib`."""
    size = 4 * shape[0] * shape[1] * config.encoder.dim * config.seeds
    return size / 2**30 <= config.policy.feature_gib


def make_all_features(encoder: Encoder) -> Callable:
    """Make all_features(params, obs) -> phi of every state of the data."""

    def all_features(params, obs):
        return jax.lax.map(lambda episode: row_features(encoder, params, episode), obs)

    return all_features


def make_mean(encoder: Encoder, dim: int) -> Callable:
    """Make mean(params, store) -> the mean of phi over the states that an action reached."""

    def mean(params, store):
        def add(total, episode):
            obs, length = episode
            reached = (jnp.arange(1, obs.shape[0]) <= length)[None].astype(jnp.float32)
            return total + (reached @ reached_features(encoder, params, obs))[0], None

        total, _ = jax.lax.scan(add, jnp.zeros(dim), (store.obs, store.length))
        return total / jnp.sum(store.length)

    return mean


def prompt_states(config: ConfigDict, dataset: Dataset) -> tuple[Any, np.ndarray | None]:
    """Draw the dataset states on which reward functions will be computed."""
    place = dataset.reached(config.infer.num_states, config.infer.seed)
    physics = None if dataset.physics is None else dataset.physics[place]
    return jnp.asarray(dataset.obs[place], jnp.float32), physics


def states_before(config: ConfigDict, dataset: Dataset, encoder: Encoder) -> Any:
    """Return the states that led to the prompt states, if phi is of transitions."""
    if not encoder.of_transitions:
        return None
    episode, row = dataset.reached(config.infer.num_states, config.infer.seed)
    return jnp.asarray(dataset.obs[episode, row - 1], jnp.float32)


def report_r2(run: Run, encoder: Any, frozen, seen: list, physics, domain: str | None) -> None:
    """Log how well the features express each test task's reward, if rewards are known.

    `seen` is what phi takes: the states, or those before and after.
    """
    if physics is None or domain not in DOMAINS:
        return
    axes = (0, *(None for _ in seen))
    phi = np.asarray(run.local(run.over_seeds(encoder.features, axes)(frozen, *seen)))
    section = run.config.infer
    centred = bool(section.intercept and run.config.policy.center_reward and not is_own(run.config))
    r2 = r2_by_task(phi, domain, physics, section.ridge, centred)
    run.log.report(run.config.encoder.updates, {f"encoder/r2_{t}": v for t, v in r2.items()})
    if not run.quiet:
        told = ", ".join(f"{task} {value.mean():.2f}" for task, value in r2.items())
        print(f"encoder: R² of the reward regression: {told}")


def r2_by_task(
    phi: Float[np.ndarray, "seed n d"],
    domain: str,
    physics: Float[np.ndarray, "n physics"],
    ridge: float | str = "auto",
    intercept: bool = False,
) -> dict[str, Float[np.ndarray, " seed"]]:
    """Return R^2 of the reward regression of each of a domain's test tasks, by seed."""
    rewards = {task: relabel(domain, task, physics) for task in DOMAINS[domain].tasks}
    return {
        task: np.array([task_vector(own, reward, ridge, intercept).r2 for own in phi])
        for task, reward in rewards.items()
    }
