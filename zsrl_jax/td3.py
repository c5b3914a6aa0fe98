"""Task-conditioned offline TD3 on the rewards of a frozen encoder.

    reward   R_z(s') = (phi(s') - m).z        m = mean feature, or 0 (`center_reward`)
    target   y = R_z(s') + gamma min_k Qbar_k(s', a', z),   a' = clip(pi(s', z) + clip(noise))
    critic   sum_k mean (Q_k(s, a, z) - y)^2,               Q_k = psi_k(s, a, z).z
    actor    -mean min_k Q_k(s, pi(s, z), z)

A batch holds `num_tasks` task vectors with `per_task` transitions each. Without tasks (a z of width
0) the same steps train on one reward: that of the oracle, or of the explorer.

Departures from the paper, each a field: `center_reward` shifts every reward by a constant, which
changes no optimal policy but takes the large constant that phi carries out of Q (false = the
paper's letter). `behaviour` > 0 adds `behaviour` mean (pi(s, z) - a)^2, with Q scaled by its mean
absolute value (Fujimoto and Gu, 2021), `head_norm` puts LayerNorm into the critic's heads,
`anneal` takes the learning rate to 0, and `actor_average` acts with a running average of the actor:
they steady small data and are off at paper scale.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import learner, networks
from zsrl_jax.data.sampling import draw_places, gather
from zsrl_jax.types import LearnerState, Metrics, Policy, Sampler, Spec, Store, Transition


class PolicyData(NamedTuple):
    """What policy training reads: the data, its features, and the tasks to train on."""

    store: Store
    phi: Float[Array, "episode row d"] | None  # features of every state, or None: on the fly
    encoder: Any  # frozen encoder parameters
    mean: Float[Array, " d"]  # subtracted from phi in the reward
    tasks: Any  # the sampler's parameters


class PolicyBatch(NamedTuple):
    """Transitions with the task (of width 0 where there is none) and the reward of each."""

    transition: Transition
    z: Float[Array, "batch d"]
    reward: Float[Array, " batch"]


def td_target(
    reward: Float[Array, " batch"],
    discount: Float[Array, " batch"],
    next_q: Float[Array, "2 batch"],
) -> Float[Array, " batch"]:
    """Return y = r + discount * min_k Q_k(s', a')."""
    return jax.lax.stop_gradient(reward + discount * jnp.min(next_q, axis=0))


def critic_loss(q: Float[Array, "2 batch"], target: Float[Array, " batch"]) -> Float[Array, ""]:
    """Return the squared error of both critics, added."""
    return jnp.sum(jnp.mean((q - target[None]) ** 2, axis=-1))


def actor_loss(
    q: Float[Array, "2 batch"],
    action: Float[Array, "batch a"],
    data_action: Float[Array, "batch a"],
    behaviour: float,
) -> Float[Array, ""]:
    """Return -min_k Q_k, with a pull towards the data's action where `behaviour` > 0."""
    value = jnp.mean(jnp.min(q, axis=0))
    if not behaviour:
        return -value
    scale = jax.lax.stop_gradient(jnp.mean(jnp.abs(q)))
    return -value / scale + behaviour * jnp.mean((action - data_action) ** 2)


def q_value(
    psi: Float[Array, "2 batch out"], z: Float[Array, "batch d"], head: str
) -> Float[Array, "2 batch"]:
    """Read the value off the critic's output: psi.z (`successor`) or the output (`scalar`)."""
    return psi[..., 0] if head == "scalar" else jnp.sum(psi * z[None], axis=-1)


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


def make_critic_step(nets: Nets, config: ConfigDict, stage: str = "policy") -> Callable:
    """Make the critics' loss on a PolicyBatch, for learner.Step; metrics are named by the stage."""

    def loss(part, params, target_params, batch, key):
        (obs, action, next_obs, discount, *_), z, reward = batch
        next_action = nets.actor.apply(params["actor"], next_obs, z)
        next_action = networks.smoothed_action(key, next_action, config.noise, config.noise_clip)
        next_q = nets.value(target_params["critic"], next_obs, next_action, z)
        target = td_target(reward, config.discount * discount, next_q)
        q = nets.value(part, obs, action, z)
        value = critic_loss(q, target)
        return value, {
            f"{stage}/critic_loss": value,
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
        value = actor_loss(q, action, data_action, behaviour)
        return value, {
            f"{stage}/actor_loss": value,
            f"{stage}/saturated": jnp.mean(jnp.abs(action) > 0.99),
            f"{stage}/behaviour": jnp.mean((action - data_action) ** 2),
        }

    return loss


def make_sample(config: ConfigDict, features: Callable, sampler: Sampler) -> Callable:
    """Make sample(key, data) -> PolicyBatch with `num_tasks` x `per_task` rows."""
    num = config.num_tasks * config.per_task

    def sample(key, data: PolicyData) -> PolicyBatch:
        key_task, key_place = jax.random.split(key)
        z = sampler.sample(key_task, data.tasks, config.num_tasks)
        z = jnp.repeat(z, config.per_task, axis=0, total_repeat_length=num)
        transition = gather(data.store, *draw_places(key_place, data.store.length, num))
        if data.phi is None:
            phi = features(data.encoder, transition.next_obs)
        else:
            phi = data.phi[transition.episode, transition.step + 1]
        reward = jnp.sum((phi - data.mean[None]) * z, axis=-1)
        return PolicyBatch(transition, z, reward)

    return sample


def make(config: ConfigDict, spec: Spec, dim: int, sample: Callable) -> Policy:
    """Bind a config to the TD3 learner; `sample` gives its batches, `dim` is the width of z."""
    out = {"successor": dim, "scalar": 1}[config.head]
    actor = networks.actor(spec.obs_dim, dim, spec.action_dim, config.width)
    critic = networks.twin(spec.obs_dim, spec.action_dim, dim, out, config.width, config.head_norm)
    nets, delay = Nets(actor, critic, config.head), config.policy_delay

    def init_params(key):
        key_actor, key_critic = jax.random.split(key)
        return {"actor": actor.init(key_actor), "critic": critic.init(key_critic)}

    steps = [
        learner.Step("critic", make_critic_step(nets, config), learning_rate(config, 1)),
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
