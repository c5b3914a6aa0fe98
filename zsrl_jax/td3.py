"""Task-conditioned offline TD3 on the rewards of a frozen encoder.

    reward   R_z(s') = (phi(s') - m).z        m = mean feature, or 0 (`center_reward`)
    target   y = R_z(s') + gamma min_k Qbar_k(s', a', z),   a' = clip(pi(s', z) + clip(noise))
    critic   sum_k mean (Q_k(s, a, z) - y)^2,               Q_k = psi_k(s, a, z).z
    actor    -mean min_k Q_k(s, pi(s, z), z)

A batch holds `num_tasks` task vectors with `per_task` transitions each. Without tasks (a z of width
0) the same steps train on one reward: that of the oracle, or of the explorer.

Departures from the paper, each a field: `center_reward` shifts every reward by a constant, which
changes no optimal policy but removes the large constant of phi from Q (false: the paper). The
others stabilise training on small data and are off at paper scale:
`behaviour` > 0 adds `behaviour` mean (pi(s, z) - a)^2, with Q scaled by its mean absolute value
    (Fujimoto and Gu, 2021). |Q| grows during training, and with it the weight of this term: the
    policy is free early and settles near the data later.
`successor` > 0 adds `successor` sum_k mean |psi_k - (phi(s') - m + gamma psibar_j(s', a', z))|^2,
    j the critic of least value: d numbers to learn from instead of one. Its target dot z is y.
`horizon` n > 1 sums n steps of the data before it bootstraps:
    y = sum_{i<n} gamma^i R_z(s_{t+1+i}) + gamma^n Q(s_{t+n}, a', z). Values come back n times as
    fast; the steps between are those of the data, not of the policy.
`pessimism` p takes (1+p)/2 of the smaller critic and (1-p)/2 of the larger: 1 is TD3's minimum, 0
    the mean of both.
`way_back` lets actions come back from their bounds: the gradient through the actor's tanh is not
    damped where it leads inwards (`networks.tanh_with_way_back`). With the plain tanh an action
    that has come to its bound stays there (docs/results/walker.md).
`ensemble` n > 1 trains n actors with critics of their own side by side, each on its part of a batch
    n times as large; which of their actions is taken, their critics decide together (`acting`).
`head_norm` puts LayerNorm into the critic's heads, `anneal` takes the learning rate to 0, and
`actor_average` acts with a running average of the actor.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key
from ml_collections import ConfigDict

from zsrl_jax import learner, networks
from zsrl_jax.data.sampling import draw_ahead
from zsrl_jax.networks import repeat_rows
from zsrl_jax.types import (
    Ahead,
    Metrics,
    Policy,
    Sampler,
    Spec,
    Store,
    Transition,
)


def cautious(q: Float[Array, "2 batch"], pessimism: float = 1.0) -> Float[Array, " batch"]:
    """Return the smaller of both critics (1), their mean (0), or a value between these."""
    if pessimism == 1:
        return jnp.min(q, axis=0)
    return (1 + pessimism) / 2 * jnp.min(q, axis=0) + (1 - pessimism) / 2 * jnp.max(q, axis=0)


def td_target(
    reward: Float[Array, " batch"],
    discount: Float[Array, " batch"],
    next_q: Float[Array, "2 batch"],
    pessimism: float = 1.0,
) -> Float[Array, " batch"]:
    """Return y = r + discount * min_k Q_k(s', a')."""
    return jax.lax.stop_gradient(reward + discount * cautious(next_q, pessimism))


def critic_loss(q: Float[Array, "2 batch"], target: Float[Array, " batch"]) -> Float[Array, ""]:
    """Return the squared error of both critics, added."""
    return jnp.sum(jnp.mean((q - target[None]) ** 2, axis=-1))


def successor_target(
    phi: Float[Array, "batch d"],
    discount: Float[Array, " batch"],
    next_psi: Float[Array, "2 batch d"],
    next_q: Float[Array, "2 batch"],
    pessimism: float = 1.0,
) -> Float[Array, "batch d"]:
    """Return phi + discount * psi_j(s', a'), j the critic of least value."""
    least = jnp.argmin(next_q, axis=0)[None, :, None]
    psi = jnp.take_along_axis(next_psi, least, axis=0)[0]
    if pessimism != 1:
        other = jnp.take_along_axis(next_psi, 1 - least, axis=0)[0]
        psi = (1 + pessimism) / 2 * psi + (1 - pessimism) / 2 * other
    return jax.lax.stop_gradient(phi + discount[:, None] * psi)


def successor_loss(
    psi: Float[Array, "2 batch d"], target: Float[Array, "batch d"]
) -> Float[Array, ""]:
    """Return the squared distance of both critics' successor features to their target, added."""
    return jnp.sum(jnp.mean(jnp.sum((psi - target[None]) ** 2, axis=-1), axis=-1))


def actor_loss(
    q: Float[Array, "2 batch"],
    distance: Float[Array, ""],
    behaviour: float,
    pessimism: float = 1.0,
) -> Float[Array, ""]:
    """Return -min_k Q_k, plus the weighted distance to the data's action if `behaviour` > 0."""
    value = jnp.mean(cautious(q, pessimism))
    if not behaviour:
        return -value
    scale = jax.lax.stop_gradient(jnp.mean(jnp.abs(q)))
    return -value / scale + behaviour * distance


def q_value(
    psi: Float[Array, "2 batch out"], z: Float[Array, "task d"], head: str
) -> Float[Array, "2 batch"]:
    """Return the value from the critic's output: psi.z (`successor`) or the output (`scalar`)."""
    if head == "scalar":
        return psi[..., 0]
    return jnp.sum(psi * repeat_rows(z, psi.shape[1])[None], axis=-1)


class PolicyData(NamedTuple):
    """What policy training reads: the data, its features, and the tasks to train on."""

    store: Store
    phi: Float[Array, "episode row d"] | None  # features of every state, or None: on the fly
    encoder: Any  # frozen encoder parameters
    mean: Float[Array, " d"]  # subtracted from phi in the reward
    tasks: Any  # the sampler's parameters


class PolicyBatch(NamedTuple):
    """Transitions with their rewards, and the tasks (of width 0 if there are none)."""

    transition: Transition
    z: Float[Array, "task d"]  # each for a block of batch / task transitions
    reward: Float[Array, " batch"]
    phi: Float[Array, "batch d"] | None = None  # phi(s') - m, if there is a z


def learning_rate(config: ConfigDict, every: int) -> Any:
    """Return the rate, or with `anneal` its linear schedule to 0 at the last update."""
    if not config.anneal:
        return config.learning_rate
    import optax  # here, so that an oracle that only acts needs no optimiser

    return optax.linear_schedule(config.learning_rate, 0.0, max(config.updates // every, 1))


class Nets(NamedTuple):
    """The actor, the twin critics, and the kind of head that gives their value."""

    actor: networks.Net
    critic: networks.Net
    head: str

    def value(self, params: Any, obs: Array, action: Array, z: Array) -> Float[Array, "2 batch"]:
        """Return Q_k(s, a, z) of both critics."""
        return q_value(self.critic.apply(params, obs, action, z), z, self.head)


def make_nets(config: ConfigDict, spec: Spec, dim: int) -> Nets:
    """Build the actor and the critics; `dim` is the width of z."""
    out = {"successor": dim, "scalar": 1}[config.head]
    return Nets(
        networks.actor(spec.obs_dim, dim, spec.action_dim, config.width, config.way_back),
        networks.twin(spec.obs_dim, spec.action_dim, dim, out, config.width, config.head_norm),
        config.head,
    )


def make_critic_step(
    nets: Nets,
    config: ConfigDict,
    stage: str = "policy",
    successor: float = 0.0,
    pessimism: float = 1.0,
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
        error = value = critic_loss(q, td_target(reward, discount, next_q, pessimism))
        if successor:
            target = successor_target(phi, discount, next_psi, next_q, pessimism)
            value += successor * successor_loss(psi, target)
        return value, {
            f"{stage}/critic_loss": error,
            f"{stage}/q": jnp.mean(q),
            f"{stage}/q_abs": jnp.mean(jnp.abs(q)),
            f"{stage}/reward": jnp.mean(reward),
            f"{stage}/reward_std": jnp.std(reward),
        }

    return loss


def make_actor_step(
    nets: Nets,
    behaviour: float,
    stage: str = "policy",
    pessimism: float = 1.0,
) -> Callable:
    """Make the actor's loss on a PolicyBatch, for learner.Step."""

    def loss(part, params, target_params, batch, key) -> tuple[Array, Metrics]:
        obs, data_action = batch.transition.obs, batch.transition.action
        action = nets.actor.apply(part, obs, batch.z)
        q = nets.value(params["critic"], obs, action, batch.z)
        distance = jnp.mean((action - data_action) ** 2)
        value = actor_loss(q, distance, behaviour, pessimism)
        return value, {
            f"{stage}/actor_loss": value,
            f"{stage}/saturated": jnp.mean(jnp.abs(action) > 0.99),
            f"{stage}/behaviour": distance,
        }

    return loss


def batch_rows(config: ConfigDict) -> int:
    """Count the transitions of a batch, those of all learners of an ensemble."""
    return config.ensemble * config.num_tasks * config.per_task


def make_draw(config: ConfigDict) -> Callable:
    """Make draw(key, store) -> the transitions of a batch."""
    num = batch_rows(config)

    def draw(key, store: Store) -> Ahead:
        return draw_ahead(key, store, num, config.horizon, config.discount)

    return draw


def make_label(
    config: ConfigDict, features: Callable, sampler: Sampler, of_transitions: bool = False
) -> Callable:
    """Make label(key, data, drawn) -> PolicyBatch: tasks drawn, and their rewards."""

    def computed(params, drawn: Ahead) -> Float[Array, "batch n d"]:
        seen = [drawn.reached]
        if of_transitions:
            seen.insert(0, jnp.concatenate([drawn.start.obs[:, None], drawn.reached[:, :-1]], 1))
        flat = [x.reshape(-1, x.shape[-1]) for x in seen]
        return features(params, *flat).reshape(*drawn.row.shape, -1)

    def label(key, data: PolicyData, drawn: Ahead) -> PolicyBatch:
        z = sampler.sample(key, data.tasks, config.ensemble * config.num_tasks)
        batch = drawn.row.shape[0]
        if data.phi is None:
            phi = computed(data.encoder, drawn)
        else:
            phi = data.phi[drawn.start.episode[:, None], drawn.row]
        phi = jnp.sum(drawn.weight[..., None] * (phi - data.mean[None, None]), axis=1)
        reward = jnp.sum(phi * repeat_rows(z, batch), axis=-1)
        return PolicyBatch(drawn.start, z, reward, phi)

    return label


def sample_keys(key: Key[Array, ""]) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """Return the keys of a batch's tasks and of its transitions."""
    key_task, key_place = jax.random.split(key)
    return key_task, key_place


def make_sample(
    config: ConfigDict, features: Callable, sampler: Sampler, of_transitions: bool = False
) -> Callable:
    """Make sample(key, data) -> PolicyBatch: `num_tasks` x `per_task` rows per learner."""
    draw, label = make_draw(config), make_label(config, features, sampler, of_transitions)

    def sample(key, data: PolicyData) -> PolicyBatch:
        key_task, key_place = sample_keys(key)
        return label(key_task, data, draw(key_place, data.store))

    return sample


def make(config: ConfigDict, spec: Spec, dim: int, sample: Callable) -> Policy:
    """Bind a config to the TD3 learner; `sample` gives its batches, `dim` is the width of z."""
    nets, delay = make_nets(config, spec, dim), config.policy_delay
    actor, critic, _ = nets
    successor = config.successor if config.head == "successor" else 0.0

    def init_params(key):
        key_actor, key_critic = jax.random.split(key)
        return {"actor": actor.init(key_actor), "critic": critic.init(key_critic)}

    steps = [
        learner.Step(
            "critic",
            make_critic_step(nets, config, successor=successor, pessimism=config.pessimism),
            learning_rate(config, 1),
        ),
        learner.Step(
            "actor",
            make_actor_step(
                nets,
                config.behaviour,
                pessimism=config.pessimism,
            ),
            learning_rate(config, delay),
            delay,
        ),
    ]
    average = {"actor": config.actor_average} if config.actor_average else {}
    one = learner.make(init_params, steps, {"critic": config.target_rate, **average})
    init, update = learner.side_by_side(one, config.ensemble) if config.ensemble > 1 else one
    return Policy(init, sample, update, actor.apply)
