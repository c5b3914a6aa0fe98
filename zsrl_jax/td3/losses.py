"""TD3's equations on arrays: targets, the critics' errors, the actor's aim."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zsrl_jax.networks import spread


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


def successor_target(
    phi: Float[Array, "batch d"],
    discount: Float[Array, " batch"],
    next_psi: Float[Array, "2 batch d"],
    next_q: Float[Array, "2 batch"],
) -> Float[Array, "batch d"]:
    """Return phi + discount * psi_j(s', a'), j the critic of least value."""
    least = jnp.argmin(next_q, axis=0)[None, :, None]
    psi = jnp.take_along_axis(next_psi, least, axis=0)[0]
    return jax.lax.stop_gradient(phi + discount[:, None] * psi)


def successor_loss(
    psi: Float[Array, "2 batch d"], target: Float[Array, "batch d"]
) -> Float[Array, ""]:
    """Return the squared distance of both critics' successor features to their target, added."""
    return jnp.sum(jnp.mean(jnp.sum((psi - target[None]) ** 2, axis=-1), axis=-1))


def actor_loss(
    q: Float[Array, "2 batch"], distance: Float[Array, ""], behaviour: float
) -> Float[Array, ""]:
    """Return -min_k Q_k, with a pull of the distance to the data's action where `behaviour` > 0."""
    value = jnp.mean(jnp.min(q, axis=0))
    if not behaviour:
        return -value
    scale = jax.lax.stop_gradient(jnp.mean(jnp.abs(q)))
    return -value / scale + behaviour * distance


def q_value(
    psi: Float[Array, "2 batch out"], z: Float[Array, "task d"], head: str
) -> Float[Array, "2 batch"]:
    """Read the value off the critic's output: psi.z (`successor`) or the output (`scalar`)."""
    if head == "scalar":
        return psi[..., 0]
    return jnp.sum(psi * spread(z, psi.shape[1])[None], axis=-1)
