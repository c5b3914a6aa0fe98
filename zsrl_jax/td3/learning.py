"""Steps, batches and the learner: the losses bound to networks, data and a config."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import learner, networks
from zsrl_jax.data.sampling import draw_places, gather
from zsrl_jax.td3.losses import (
    actor_loss,
    critic_loss,
    q_value,
    successor_loss,
    successor_target,
    td_target,
)
from zsrl_jax.types import LearnerState, Metrics, Policy, Sampler, Spec, Store, Transition


class PolicyData(NamedTuple):
    """What policy training reads: the data, its features, and the tasks to train on."""

    store: Store
    phi: Float[Array, "episode row d"] | None  # features of every state, or None: on the fly
    encoder: Any  # frozen encoder parameters
    mean: Float[Array, " d"]  # subtracted from phi in the reward
    tasks: Any  # the sampler's parameters


class PolicyBatch(NamedTuple):
    """Transitions with the reward of each, and the tasks (of width 0 where there is none)."""

    transition: Transition
    z: Float[Array, "task d"]  # each for a run of batch / task transitions
    reward: Float[Array, " batch"]
    phi: Float[Array, "batch d"] | None = None  # phi(s') - m, where there is a z


def learning_rate(config: ConfigDict, every: int) -> float | optax.Schedule:
    """Return the rate, or its straight way to 0 at the last update (`anneal`)."""
    if not config.anneal:
        return config.learning_rate
    return optax.linear_schedule(config.learning_rate, 0.0, max(config.updates // every, 1))


class Nets(NamedTuple):
    """The actor, and the twin critics with the head that values are read off."""

    actor: networks.Net
    critic: networks.Net
    head: str

    def value(self, params: Any, obs: Array, action: Array, z: Array) -> Float[Array, "2 batch"]:
        """Return Q_k(s, a, z) of both critics."""
        return q_value(self.critic.apply(params, obs, action, z), z, self.head)


def make_critic_step(
    nets: Nets, config: ConfigDict, stage: str = "policy", successor: float = 0.0
) -> Callable:
    """Make the critics' loss on a PolicyBatch, for learner.Step; metrics are named by the stage."""

    def loss(part, params, target_params, batch, key):
        (obs, action, next_obs, discount, *_), z, reward, phi = batch
        next_action = nets.actor.apply(params["actor"], next_obs, z)
        next_action = networks.smoothed_action(key, next_action, config.noise, config.noise_clip)
        next_psi = nets.critic.apply(target_params["critic"], next_obs, next_action, z)
        psi = nets.critic.apply(part, obs, action, z)
        next_q, q = (q_value(x, z, nets.head) for x in (next_psi, psi))
        discount = config.discount * discount
        error = value = critic_loss(q, td_target(reward, discount, next_q))
        if successor:
            target = successor_target(phi, discount, next_psi, next_q)
            value += successor * successor_loss(psi, target)
        return value, {
            f"{stage}/critic_loss": error,
            f"{stage}/q": jnp.mean(q),
            f"{stage}/q_abs": jnp.mean(jnp.abs(q)),
            f"{stage}/reward": jnp.mean(reward),
            f"{stage}/reward_std": jnp.std(reward),
        }

    return loss


def make_actor_step(nets: Nets, behaviour: float, stage: str = "policy") -> Callable:
    """Make the actor's loss on a PolicyBatch, for learner.Step."""

    def loss(part, params, target_params, batch, key) -> tuple[Array, Metrics]:
        obs, data_action = batch.transition.obs, batch.transition.action
        action = nets.actor.apply(part, obs, batch.z)
        q = nets.value(params["critic"], obs, action, batch.z)
        distance = jnp.mean((action - data_action) ** 2)
        value = actor_loss(q, distance, behaviour)
        return value, {
            f"{stage}/actor_loss": value,
            f"{stage}/saturated": jnp.mean(jnp.abs(action) > 0.99),
            f"{stage}/behaviour": distance,
        }

    return loss


def make_draw(config: ConfigDict) -> Callable:
    """Make draw(key, store) -> the transitions of a batch."""

    def draw(key, store: Store) -> Transition:
        return gather(store, *draw_places(key, store.length, config.num_tasks * config.per_task))

    return draw


def make_label(config: ConfigDict, features: Callable, sampler: Sampler) -> Callable:
    """Make label(key, data, transition) -> PolicyBatch: tasks drawn, and their rewards."""

    def label(key, data: PolicyData, transition: Transition) -> PolicyBatch:
        z = sampler.sample(key, data.tasks, config.num_tasks)
        if data.phi is None:
            phi = features(data.encoder, transition.next_obs)
        else:
            phi = data.phi[transition.episode, transition.step + 1]
        phi = phi - data.mean[None]
        reward = jnp.sum(phi * networks.spread(z, phi.shape[0]), axis=-1)
        return PolicyBatch(transition, z, reward, phi)

    return label


def make_sample(config: ConfigDict, features: Callable, sampler: Sampler) -> Callable:
    """Make sample(key, data) -> PolicyBatch with `num_tasks` x `per_task` rows."""
    draw, label = make_draw(config), make_label(config, features, sampler)

    def sample(key, data: PolicyData) -> PolicyBatch:
        key_task, key_place = jax.random.split(key)
        return label(key_task, data, draw(key_place, data.store))

    return sample


def make(config: ConfigDict, spec: Spec, dim: int, sample: Callable) -> Policy:
    """Bind a config to the TD3 learner; `sample` gives its batches, `dim` is the width of z."""
    out = {"successor": dim, "scalar": 1}[config.head]
    actor = networks.actor(spec.obs_dim, dim, spec.action_dim, config.width)
    critic = networks.twin(spec.obs_dim, spec.action_dim, dim, out, config.width, config.head_norm)
    nets, delay = Nets(actor, critic, config.head), config.policy_delay
    successor = config.successor if config.head == "successor" else 0.0

    def init_params(key):
        key_actor, key_critic = jax.random.split(key)
        return {"actor": actor.init(key_actor), "critic": critic.init(key_critic)}

    steps = [
        learner.Step(
            "critic",
            make_critic_step(nets, config, successor=successor),
            learning_rate(config, 1),
        ),
        learner.Step(
            "actor", make_actor_step(nets, config.behaviour), learning_rate(config, delay), delay
        ),
    ]
    average = {"actor": config.actor_average} if config.actor_average else {}
    init, update = learner.make(init_params, steps, {"critic": config.target_rate, **average})
    return Policy(init, sample, update, actor.apply)


def acting(state: LearnerState) -> Any:
    """Return the actor's parameters to act with: their running average where there is one."""
    return state.target_params.get("actor", state.params["actor"])
