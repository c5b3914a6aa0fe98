"""What several encoders share: means over pairs, distances, orthonormality, health.

orthonormality(Phi) = mean_{i!=j} G_ij^2 - 2 mean_i G_ii,    G = Phi Phi^T
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zsrl_jax.types import Store


def off_diagonal_mean(matrix: Float[Array, "*k batch batch"]) -> Float[Array, "*k"]:
    """Return the mean of the entries with i != j."""
    size = matrix.shape[-1]
    diagonal = jnp.trace(matrix, axis1=-2, axis2=-1)
    return (jnp.sum(matrix, axis=(-2, -1)) - diagonal) / (size * (size - 1))


def off_diagonal_square(x: Float[Array, "batch d"], y: Float[Array, "batch d"]) -> Float[Array, ""]:
    """Return mean_{i!=j} (x_i.y_j)^2, by |X Y^T|^2 = <X^T X, Y^T Y> where d x d is less work."""
    size, dim = x.shape
    if 2 * dim > size:
        return off_diagonal_mean((x @ y.T) ** 2)
    whole = jnp.sum((x.T @ x) * (y.T @ y))
    return (whole - jnp.sum(jnp.sum(x * y, axis=-1) ** 2)) / (size * (size - 1))


@jax.custom_vjp
def off_diagonal_error(
    x: Float[Array, "batch d"], y: Float[Array, "batch d"], target: Float[Array, "batch batch"]
) -> Float[Array, ""]:
    """Return mean_{i!=j} (x_i.y_j - T_ij)^2; T is a constant.

    The gradient is written by hand: E = X Y^T - T is then the only matrix of all pairs. (With the
    d x d products of `off_diagonal_square`, E would cancel: it is a hundredth of its terms.)
    """
    return _error(x, y, target)[0]


def _error(x, y, target):
    error = x @ y.T - target
    on, size = jnp.diagonal(error), x.shape[0]
    value = (jnp.sum(error**2) - jnp.sum(on**2)) / (size * (size - 1))
    return value, (error, on, x, y)


def _error_slope(kept, slope):
    """Return 2 E Y and 2 E^T X over the pairs, with the diagonal of E taken as 0."""
    error, on, x, y = kept
    scale = 2 * slope / (x.shape[0] * (x.shape[0] - 1))
    return scale * (error @ y - on[:, None] * y), scale * (error.T @ x - on[:, None] * x), None


off_diagonal_error.defvjp(_error, _error_slope)


def diagonal_product(x: Float[Array, "batch d"], y: Float[Array, "batch d"]) -> Float[Array, ""]:
    """Return mean_i x_i.y_i."""
    return jnp.mean(jnp.sum(x * y, axis=-1))


def squared_distance(x: Float[Array, "batch d"], y: Float[Array, "batch d"]) -> Float[Array, ""]:
    """Return mean_i |x_i - y_i|^2."""
    return jnp.mean(jnp.sum((x - y) ** 2, axis=-1))


def orthonormality_loss(phi: Float[Array, "batch d"]) -> Float[Array, ""]:
    """Push E[phi phi^T] towards the identity, without bias, from one batch.

    |Phi Phi^T| = |Phi^T Phi| in the Frobenius norm: so the d x d product replaces the Gram matrix.
    """
    size = phi.shape[0]
    diagonal = jnp.sum(phi * phi, axis=-1)
    off = jnp.sum((phi.T @ phi) ** 2) - jnp.sum(diagonal**2)
    return off / (size * (size - 1)) - 2 * jnp.mean(diagonal)


def feature_health(phi: Float[Array, "batch d"]) -> dict[str, Array]:
    """Measure the norm of features and the effective rank (tr S)^2 / tr S^2 of their covariance."""
    mean = jnp.mean(phi, axis=0)
    covariance = phi.T @ phi / phi.shape[0] - jnp.outer(mean, mean)  # orthonormality's product
    rank = jnp.trace(covariance) ** 2 / jnp.maximum(jnp.sum(covariance**2), 1e-12)
    return {
        "encoder/norm": jnp.mean(jnp.linalg.norm(phi, axis=-1)),
        "encoder/effective_rank": rank,
    }


def second_moment(phi: Callable[[Array], Array], store: Store) -> Float[Array, "d d"]:
    """Return E[phi phi^T] over every state of the data that an action reached."""

    def add(total, episode):
        obs, length = episode
        reached = jnp.arange(1, obs.shape[0]) <= length
        value = phi(obs[1:]) * reached[:, None]
        return total + value.T @ value, None

    dim = jax.eval_shape(phi, store.obs[0]).shape[-1]
    total, _ = jax.lax.scan(add, jnp.zeros((dim, dim)), (store.obs, store.length))
    return total / jnp.sum(store.length)
