"""Mixture of factor analysers (Ghahramani and Hinton 1996): Sigma_k = W_k W_k^T + diag(s_k)^2.

    y = (x - mu) / s,  V = W / s,  M = I + V^T V,  z = M^-1 V^T y = E[factors | x]
    log N(x) = -1/2 (|y - V z|^2 + |z|^2) - sum log s - 1/2 log det M - d/2 log 2 pi

Only products of points with rank columns are formed, so an iteration costs 10 N K d rank operations
and not 4 N K d^2. The quadratic form is Woodbury's identity written as a sum of squares, which
cannot cancel. How W and s are found stands in `factors`.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.gmm.cholesky import HIGHEST, invert, product_by_component, solve
from zsrl_jax.gmm.moments import Density, Scorer, bound_width


class LowRank(NamedTuple):
    """Loadings of the factors and standard deviations of the noise."""

    loadings: Float[Array, "k d q"]
    noise: Float[Array, "k d"]

    def scorer(self, mean: Float[Array, "k d"]) -> Scorer:
        """Return the function that gives the log density of points under each component."""
        return self.density(mean).scorer()

    def density(self, mean: Float[Array, "k d"]) -> Density:
        """Return the log density of one component at a time, and a bound of it."""
        white = self.loadings / self.noise[:, :, None]
        few = bound_width(mean.shape[1])
        factor, read = reader(white)
        log_det = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), axis=1)
        constant = -jnp.sum(jnp.log(self.noise), axis=1) - log_det
        constant = constant - 0.5 * mean.shape[1] * math.log(2 * math.pi)
        whole = mean, 1.0 / self.noise, white, read
        marginal = *(part[:, :few] for part in whole[:3]), reader(white[:, :few])[1]

        def exact(part, x: Float[Array, "n d"]) -> Float[Array, " n"]:
            return part[2] - 0.5 * distance(part[0], x)

        def upper(part, x: Float[Array, "n d"]) -> Float[Array, " n"]:
            return part[2] - 0.5 * distance(part[1], x[:, :few])

        return Density((whole, marginal, constant), exact, upper)

    def draw(
        self, key: Key[Array, ""], component: Int[Array, " n"], dim: int
    ) -> Float[Array, "n {dim}"]:
        """Draw points around zero, each with its component's covariance."""
        key_factor, key_noise = jax.random.split(key)
        code = jax.random.normal(key_factor, (*component.shape, self.loadings.shape[-1]))
        noise = jax.random.normal(key_noise, (*component.shape, dim), self.noise.dtype)
        return product_by_component(component, code, self.loadings) + noise * self.noise[component]

    def cholesky_factors(self, dim: int) -> Float[Array, "k d d"]:
        """Return the Cholesky factors of the covariances."""
        dense = jnp.einsum("kdq,keq->kde", self.loadings, self.loadings, precision=HIGHEST)
        return jnp.linalg.cholesky(dense + jnp.square(self.noise)[:, :, None] * jnp.eye(dim)[None])

    def scaled(self, scale: Float[Array, ""]) -> "LowRank":
        """Return the covariances of scale * x."""
        return LowRank(self.loadings * scale, self.noise * scale)

    def take(self, index: Int[Array, " k"]) -> "LowRank":
        """Return the covariances of these components."""
        return LowRank(self.loadings[index], self.noise[index])

    def parameter_count(self, dim: int) -> tuple[int, int]:
        """Count free covariance parameters: of each component, and shared."""
        rank = self.loadings.shape[-1]
        return dim * rank - rank * (rank - 1) // 2 + dim, 0


def reader(white: Float[Array, "k d q"]) -> tuple[Float[Array, "k q q"], Float[Array, "k q d"]]:
    """Return the Cholesky factor of M = I + V^T V, and M^-1 V^T."""
    inner = jnp.einsum("kdp,kdq->kpq", white, white, precision=HIGHEST)
    factor = jnp.linalg.cholesky(inner + jnp.eye(inner.shape[-1])[None])
    return factor, solve(invert(factor), white.swapaxes(1, 2))


def distance(part: tuple[Array, Array, Array, Array], x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """Compute the squared Mahalanobis distance of points to one component."""
    mu, scale, load, code = part
    y = (x - mu[None]) * scale[None]
    z = jnp.matmul(y, code.T, precision=HIGHEST)
    rest = y - jnp.matmul(z, load.T, precision=HIGHEST)
    return jnp.sum(rest * rest, axis=1) + jnp.sum(z * z, axis=1)
