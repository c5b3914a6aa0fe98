"""Forward-backward representations (Touati and Ollivier, 2021), kept for their B alone.

    M_k = F_k(s, a, z) B(s')^T,   Mbar = gamma min_k Fbar_k(s', a', z) Bbar(s')^T
    loss  = sum_k 1/2 mean_{i!=j} (M_k - Mbar)_ij^2 - mean_i (M_k)_ii + w ortho(B)
    actor = -mean_i min_k F_k(s, pi(s, z), z).z
    phi   = C^-1 B,   C = E[B B^T] over the dataset, estimated once when training ends

z is uniform on the sphere, or B of a shuffled state with probability `mix_ratio`. The paper's
auxiliary loss on F.z has the weight `q_weight`, 0 by default as in the public code of the field.
As in the paper the actor is thrown away and a new policy is trained on phi.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import learner, networks
from zsrl_jax.data.sampling import draw_transitions
from zsrl_jax.encoders import losses
from zsrl_jax.types import Encoder, Spec


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
    measure = forward @ backward.T
    target = discount[:, None] * jnp.min(next_forward @ next_backward.T, axis=0)
    error = measure - jax.lax.stop_gradient(target)[None]
    off = losses.off_diagonal_mean(error**2)
    on = losses.diagonal_mean(measure)
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


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the forward-backward encoder."""
    dim, radius = config.dim, networks.sphere_radius(config.radius, config.dim)
    backward = networks.sphere_mlp(spec.obs_dim, config.hidden, dim, radius)
    forward = networks.twin(spec.obs_dim, spec.action_dim, dim, dim, config.width)
    actor = networks.actor(spec.obs_dim, dim, spec.action_dim, config.width)

    def init_params(key):
        key_backward, key_forward, key_actor = jax.random.split(key, 3)
        measure = {"backward": backward.init(key_backward), "forward": forward.init(key_forward)}
        return {"measure": measure, "actor": actor.init(key_actor)}

    def draw_z(key, params, batch):
        key_sphere, key_state, key_pick = jax.random.split(key, 3)
        size = batch.obs.shape[0]
        uniform = networks.project(jax.random.normal(key_sphere, (size, dim)), radius)
        shuffled = jax.random.permutation(key_state, batch.next_obs)
        reached = backward.apply(params["measure"]["backward"], shuffled)
        pick = jax.random.bernoulli(key_pick, config.mix_ratio, (size, 1))
        return jax.lax.stop_gradient(jnp.where(pick, reached, uniform))

    def measure_loss(part, params, target_params, batch_z, key):
        batch, z = batch_z
        next_action = networks.smoothed_action(
            key, actor.apply(params["actor"], batch.next_obs, z), config.noise, config.noise_clip
        )
        target = target_params["measure"]
        next_forward = forward.apply(target["forward"], batch.next_obs, next_action, z)
        next_backward = backward.apply(target["backward"], batch.next_obs)
        now = forward.apply(part["forward"], batch.obs, batch.action, z)
        phi = backward.apply(part["backward"], batch.next_obs)
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

    def actor_loss(part, params, target_params, batch_z, key):
        batch, z = batch_z
        action = actor.apply(part, batch.obs, z)
        ahead = forward.apply(params["measure"]["forward"], batch.obs, action, z)
        q = jnp.min(jnp.sum(ahead * z[None], axis=-1), axis=0)
        return -jnp.mean(q), {"encoder/q": jnp.mean(q)}

    steps = [
        learner.Step("measure", measure_loss, config.learning_rate),
        learner.Step("actor", actor_loss, config.learning_rate),
    ]
    init, descend = learner.make(init_params, steps, {"measure": config.target_rate})

    def sample(key, store):
        return draw_transitions(key, store, config.batch)

    def update(state, batch, key, step):
        key_z, key_update = jax.random.split(key)
        z = draw_z(key_z, state.params, batch)
        return descend(state, (batch, z), key_update, step)

    def freeze(key, params, store):
        params = params["measure"]["backward"]
        second_moment = losses.second_moment(lambda obs: backward.apply(params, obs), store)
        return {
            "backward": params,
            "inverse": jnp.linalg.pinv(second_moment, rtol=1e-6, hermitian=True),
        }

    def features(params, obs):
        return backward.apply(params["backward"], obs) @ params["inverse"]

    return Encoder(init, sample, update, freeze, features)
