"""One full covariance for all components: Sigma = L L^T.

    Sigma <- sum_nk r_nk (x_n - xbar_k)(x_n - xbar_k)^T / N + floor I

The sum over components needs no product for each of them. With m_n = sum_k p_nk xbar_k, the mean a
point is expected to have, it splits into two parts that are both positive,

    sum_n w_n (x_n - m_n)(x_n - m_n)^T + sum_{j<k} a_jk (xbar_j - xbar_k)(xbar_j - xbar_k)^T,

where a_jk = sum_n w_n p_nj p_nk: one product over the points, and a Laplacian of size k.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.gmm.cholesky import HIGHEST, factorize, invert, log_constant
from zsrl_jax.gmm.full import gram
from zsrl_jax.gmm.moments import Family, Moments, Scorer


class Tied(NamedTuple):
    """Cholesky factor of the covariance."""

    cholesky: Float[Array, "d d"]

    def scorer(self, mean: Float[Array, "k d"]) -> Scorer:
        """Return the function that gives the log density of points under each component."""
        whiten = invert(self.cholesky[None])[0]
        constant = log_constant(self.cholesky)
        center = jnp.matmul(mean, whiten, precision=HIGHEST)

        def score(x: Float[Array, "n d"]) -> Float[Array, "k n"]:
            white = jnp.matmul(x, whiten, precision=HIGHEST)

            def one(mu):
                return constant - 0.5 * jnp.sum(jnp.square(white - mu[None]), axis=1)

            return lax.map(one, center)

        return score

    def draw(
        self, key: Key[Array, ""], component: Int[Array, " n"], dim: int
    ) -> Float[Array, "n {dim}"]:
        """Draw points around zero, each with its component's covariance."""
        noise = jax.random.normal(key, (*component.shape, dim), self.cholesky.dtype)
        return jnp.matmul(noise, self.cholesky.T, precision=HIGHEST)

    def cholesky_factors(self, dim: int) -> Float[Array, "1 d d"]:
        """Return the Cholesky factor of the covariance, with an axis for the components."""
        return self.cholesky[None]

    def scaled(self, scale: Float[Array, ""]) -> "Tied":
        """Return the covariance of scale * x."""
        return Tied(self.cholesky * scale)

    def take(self, index: Int[Array, " k"]) -> "Tied":
        """Return the covariance of these components: the same."""
        return self

    def parameter_count(self, dim: int) -> tuple[int, int]:
        """Count free covariance parameters: of each component, and shared."""
        return 0, dim * (dim + 1) // 2


def scatter(
    x: Float[Array, "n d"], share: Float[Array, "k n"], mean: Float[Array, "k d"], frame: tuple
) -> Float[Array, "d d"]:
    """Sum the outer products of the points, each centred on its components."""
    weight = jnp.sum(share, axis=0)
    part = share / jnp.maximum(weight, 1e-30)[None]
    expected = jnp.matmul(part.T, mean, precision=HIGHEST)
    within = gram((x - expected) * jnp.sqrt(weight)[:, None])
    overlap = jnp.matmul(share, part.T, precision=HIGHEST)
    overlap = jnp.where(jnp.eye(mean.shape[0], dtype=bool), 0.0, 0.5 * (overlap + overlap.T))
    laplacian = jnp.diag(jnp.sum(overlap, axis=1)) - overlap
    between = jnp.matmul(laplacian, mean, precision=HIGHEST)
    return within + jnp.matmul(mean.T, between, precision=HIGHEST)


def spread(
    delta: Float[Array, "k d"], weight: Float[Array, " k"], frame: tuple
) -> Float[Array, "d d"]:
    """Return the scatter of one weighted point a component."""
    return gram(delta * jnp.sqrt(weight)[:, None])


def estimate(
    moments: Moments, frame: tuple, floor: Float[Array, ""]
) -> tuple[Tied, Int[Array, ""]]:
    """Return the covariance that maximises the expected log-likelihood, and the jitters added."""
    total = jnp.maximum(jnp.sum(moments.mass), 1e-6)
    cholesky, jitters = factorize((moments.scatter / total)[None], floor)
    return Tied(cholesky[0]), jitters


TIED = Family(scatter, spread, estimate)
