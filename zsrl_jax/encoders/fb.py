"""Forward-backward representations (Touati and Ollivier, 2021), of which only B is kept.

    M_k = F_k(s, a, z) B(s')^T,   Mbar = gamma min_k Fbar_k(s', a', z) Bbar(s')^T
    loss  = sum_k 1/2 mean_{i!=j} (M_k - Mbar)_ij^2 - mean_i (M_k)_ii + w ortho(B)
    actor = -mean_i min_k F_k(s, pi(s, z), z).z
    phi   = C^-1 B,   C = E[B B^T] over the dataset, estimated once when training ends

z is uniform on the sphere, or B of a shuffled state with probability `mix_ratio`. The paper's
auxiliary loss on F.z has the weight `q_weight`, 0 by default as in the public code of the field.
`actor_noise` and `backward_norm` are what tuned runs of the field add (the preset `fb_tuned`).
As in the paper the actor is discarded and a new policy is trained on phi. With `policy.kind: own`
that actor is the policy: the standard one-stage agent, z = E[B r], which is the regression on phi.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import learner, networks
from zsrl_jax.data.sampling import draw_transitions
from zsrl_jax.encoders import losses
from zsrl_jax.encoders.base import over_second_moment
from zsrl_jax.types import Encoder, OwnPolicy, Spec


def default_config() -> ConfigDict:
    """Return the fields that only this encoder has."""
    return ConfigDict(
        {
            "updates": 2_000_000,
            "width": 1024,  # of the forward network and the actor
            "mix_ratio": 0.5,  # share of z that are B of a state
            "q_weight": 0.0,  # weight of the auxiliary loss on F.z
            "noise": 0.2,  # of the next action
            "noise_clip": 0.3,
            "actor_noise": 0.0,  # of the actor's own action in its loss (tuned runs: 0.2)
            "backward_norm": False,  # LayerNorm and tanh in B's first layer (tuned runs: true)
        }
    )


def fb_loss(
    forward: Float[Array, "2 batch d"],
    backward: Float[Array, "batch d"],
    next_forward: Float[Array, "2 batch d"],
    next_backward: Float[Array, "batch d"],
    discount: Float[Array, " batch"],
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """Fit F B^T to the successor measure by its Bellman equation; `next_*` are target networks."""
    target = discount[:, None] * jnp.min(next_forward @ next_backward.T, axis=0)
    target = jax.lax.stop_gradient(target)
    off = jax.vmap(losses.off_diagonal_error, (0, None, None))(forward, backward, target)
    on = jax.vmap(losses.diagonal_product, (0, None))(forward, backward)
    terms = {"encoder/off_diagonal": jnp.mean(off), "encoder/diagonal": jnp.mean(on)}
    return jnp.sum(0.5 * off - on), terms


def q_loss(
    forward: Float[Array, "2 batch d"],
    next_forward: Float[Array, "2 batch d"],
    backward: Float[Array, "batch d"],
    z: Float[Array, "batch d"],
    discount: Float[Array, " batch"],
) -> Float[Array, ""]:
    """Fit F.z to the value of the reward B^T E[B B^T]^-1 z, which phi.z stands for."""
    second_moment = backward.T @ backward / backward.shape[0]
    implied = jnp.linalg.pinv(second_moment, hermitian=True)
    reward = jnp.sum((backward @ implied) * z, axis=-1)
    target = reward + discount * jnp.min(jnp.sum(next_forward * z[None], axis=-1), axis=0)
    q = jnp.sum(forward * z[None], axis=-1)
    return jnp.sum(jnp.mean((q - jax.lax.stop_gradient(target)[None]) ** 2, axis=-1))


class Nets(NamedTuple):
    """B(s) on the sphere, twin F(s, a, z), and the actor."""

    backward: networks.Net
    forward: networks.Net
    actor: networks.Net


def make_nets(config: ConfigDict, spec: Spec) -> Nets:
    """Build the three networks."""
    dim, radius = config.dim, networks.sphere_radius(config.radius, config.dim)
    return Nets(
        networks.sphere_mlp(spec.obs_dim, config.hidden, dim, radius, config.backward_norm),
        networks.twin(spec.obs_dim, spec.action_dim, dim, dim, config.width),
        networks.actor(spec.obs_dim, dim, spec.action_dim, config.width),
    )


def make_draw_z(config: ConfigDict, nets: Nets) -> Callable:
    """Make draw_z(key, params, batch): uniform, or B of a shuffled state."""
    dim, radius = config.dim, networks.sphere_radius(config.radius, config.dim)

    def draw_z(key, params, batch):
        key_sphere, key_state, key_pick = jax.random.split(key, 3)
        size = batch.obs.shape[0]
        uniform = networks.project(jax.random.normal(key_sphere, (size, dim)), radius)
        reached = nets.backward.apply(params["measure"]["backward"], batch.next_obs)
        reached = jax.random.permutation(key_state, reached)  # B first: the loss uses it too
        pick = jax.random.bernoulli(key_pick, config.mix_ratio, (size, 1))
        return jax.lax.stop_gradient(jnp.where(pick, reached, uniform))

    return draw_z


def make_measure_step(config: ConfigDict, nets: Nets) -> Callable:
    """Make the loss of F and B on (batch, z), for learner.Step."""

    def step(part, params, target_params, batch_z, key):
        batch, z = batch_z
        next_action = nets.actor.apply(params["actor"], batch.next_obs, z)
        next_action = networks.smoothed_action(key, next_action, config.noise, config.noise_clip)
        target = target_params["measure"]
        next_forward = nets.forward.apply(target["forward"], batch.next_obs, next_action, z)
        next_backward = nets.backward.apply(target["backward"], batch.next_obs)
        now = nets.forward.apply(part["forward"], batch.obs, batch.action, z)
        phi = nets.backward.apply(part["backward"], batch.next_obs)
        discount = config.discount * batch.discount
        value, terms = fb_loss(now, phi, next_forward, next_backward, discount)
        ortho = losses.orthonormality_loss(phi)
        metrics = {"encoder/objective": value, "encoder/orthonormality": ortho}
        loss = value + config.orthonormality * ortho
        if config.q_weight:
            stopped = jax.lax.stop_gradient(phi)
            metrics["encoder/q_loss"] = q_loss(now, next_forward, stopped, z, discount)
            loss += config.q_weight * metrics["encoder/q_loss"]
        metrics["encoder/loss"] = loss
        return loss, metrics | terms | losses.feature_health(phi)

    return step


def make_actor_step(nets: Nets, noise: float = 0.0, clip: float = 0.0) -> Callable:
    """Make the actor's loss on (batch, z), for learner.Step: F and B are constants."""

    def step(part, params, target_params, batch_z, key):
        batch, z = batch_z
        action = nets.actor.apply(part, batch.obs, z)
        if noise:
            action = networks.smoothed_action(key, action, noise, clip)
        ahead = nets.forward.apply(params["measure"]["forward"], batch.obs, action, z)
        q = jnp.min(jnp.sum(ahead * z[None], axis=-1), axis=0)
        return -jnp.mean(q), {"encoder/q": jnp.mean(q)}

    return step


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the forward-backward encoder."""
    nets = make_nets(config, spec)
    draw_z = make_draw_z(config, nets)

    def init_params(key):
        key_backward, key_forward, key_actor = jax.random.split(key, 3)
        backward, forward = nets.backward.init(key_backward), nets.forward.init(key_forward)
        measure = {"backward": backward, "forward": forward}
        return {"measure": measure, "actor": nets.actor.init(key_actor)}

    steps = [
        learner.Step("measure", make_measure_step(config, nets), config.learning_rate),
        learner.Step(
            "actor",
            make_actor_step(nets, config.actor_noise, config.noise_clip),
            config.learning_rate,
        ),
    ]
    init, descend = learner.make(init_params, steps, {"measure": config.target_rate})

    def sample(key, store):
        return draw_transitions(key, store, config.batch)

    def update(state, batch, key, step):
        key_z, key_update = jax.random.split(key)
        z = draw_z(key_z, state.params, batch)
        return descend(state, (batch, z), key_update, step)

    invert, features = over_second_moment(nets.backward.apply)

    def freeze(key, params, store):
        return invert(params["measure"]["backward"], store)

    return Encoder(init, sample, update, freeze, features)


def own_policy(config: ConfigDict, spec: Spec) -> OwnPolicy:
    """Make the one-stage agent: the actor trained together with F and B, prompted through B."""
    nets = make_nets(config, spec)

    def take(params):
        return {"backward": params["measure"]["backward"]}, params["actor"]

    def features(params, obs):
        return nets.backward.apply(params["backward"], obs)

    return OwnPolicy(take, features, nets.actor.apply)
