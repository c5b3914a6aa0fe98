"""Axis-aligned covariances: one deviation a column (`Diag`) or one in all (`Spherical`).

    log N(x | mu, s) = -1/2 sum_j ((x_j - mu_j) / s_j)^2 - sum_j log s_j - d/2 log 2 pi
    s_kj^2 <- max(sum_n r_nk (x_nj - xbar_kj)^2 / N_k, floor)        Spherical: its mean over j

The floor is the maximum-likelihood solution under the constraint s^2 >= floor, so EM never loses.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.gmm.moments import Family, Moments, Scorer


class Diag(NamedTuple):
    """Standard deviations of the columns."""

    deviation: Float[Array, "k d"]

    def scorer(self, mean: Float[Array, "k d"]) -> Scorer:
        """Return the function that gives the log density of points under each component."""
        return axis_scorer(mean, self.deviation)

    def draw(
        self, key: Key[Array, ""], component: Int[Array, " n"], dim: int
    ) -> Float[Array, "n {dim}"]:
        """Draw points around zero, each with its component's covariance."""
        noise = jax.random.normal(key, (*component.shape, dim), self.deviation.dtype)
        return noise * self.deviation[component]

    def cholesky_factors(self, dim: int) -> Float[Array, "k d d"]:
        """Return the Cholesky factors of the covariances."""
        return self.deviation[:, :, None] * jnp.eye(dim)[None]

    def scaled(self, scale: Float[Array, ""]) -> "Diag":
        """Return the covariances of scale * x."""
        return Diag(self.deviation * scale)

    def take(self, index: Int[Array, " k"]) -> "Diag":
        """Return the covariances of these components."""
        return Diag(self.deviation[index])

    def parameter_count(self, dim: int) -> tuple[int, int]:
        """Count free covariance parameters: of each component, and shared."""
        return dim, 0


class Spherical(NamedTuple):
    """One standard deviation a component."""

    deviation: Float[Array, " k"]

    def scorer(self, mean: Float[Array, "k d"]) -> Scorer:
        """Return the function that gives the log density of points under each component."""
        return axis_scorer(mean, jnp.broadcast_to(self.deviation[:, None], mean.shape))

    def draw(
        self, key: Key[Array, ""], component: Int[Array, " n"], dim: int
    ) -> Float[Array, "n {dim}"]:
        """Draw points around zero, each with its component's covariance."""
        noise = jax.random.normal(key, (*component.shape, dim), self.deviation.dtype)
        return noise * self.deviation[component][:, None]

    def cholesky_factors(self, dim: int) -> Float[Array, "k d d"]:
        """Return the Cholesky factors of the covariances."""
        return self.deviation[:, None, None] * jnp.eye(dim)[None]

    def scaled(self, scale: Float[Array, ""]) -> "Spherical":
        """Return the covariances of scale * x."""
        return Spherical(self.deviation * scale)

    def take(self, index: Int[Array, " k"]) -> "Spherical":
        """Return the covariances of these components."""
        return Spherical(self.deviation[index])

    def parameter_count(self, dim: int) -> tuple[int, int]:
        """Count free covariance parameters: of each component, and shared."""
        return 1, 0


def axis_scorer(mean: Float[Array, "k d"], deviation: Float[Array, "k d"]) -> Scorer:
    """Return the log density under independent columns."""
    constant = -jnp.sum(jnp.log(deviation), axis=1) - 0.5 * mean.shape[1] * math.log(2 * math.pi)
    inverse = 1.0 / deviation

    def score(x: Float[Array, "n d"]) -> Float[Array, "k n"]:
        def one(args):
            mu, factor, c = args
            return c - 0.5 * jnp.sum(jnp.square((x - mu[None]) * factor[None]), axis=1)

        return lax.map(one, (mean, inverse, constant))

    return score


def scatter(
    x: Float[Array, "n d"], share: Float[Array, "k n"], mean: Float[Array, "k d"], frame: tuple
) -> Float[Array, "k d"]:
    """Sum the centred squares of the points, by component."""

    def one(args):
        mu, weight = args
        return jnp.matmul(weight, jnp.square(x - mu[None]), precision=lax.Precision.HIGHEST)

    return lax.map(one, (mean, share))


def spread(
    delta: Float[Array, "k d"], weight: Float[Array, " k"], frame: tuple
) -> Float[Array, "k d"]:
    """Return the scatter of one weighted point a component."""
    return jnp.square(delta) * weight[:, None]


def variance(moments: Moments) -> Float[Array, "k d"]:
    """Return the variance of each component's points, by column."""
    return moments.scatter / jnp.maximum(moments.mass, 1e-6)[:, None]


def estimate_diag(
    moments: Moments, frame: tuple, floor: Float[Array, ""]
) -> tuple[Diag, Int[Array, ""]]:
    """Return the deviations that maximise the expected log-likelihood, and no jitters."""
    square = jnp.maximum(variance(moments), floor)
    return Diag(jnp.sqrt(square)), jnp.zeros((), jnp.int32)


def estimate_spherical(
    moments: Moments, frame: tuple, floor: Float[Array, ""]
) -> tuple[Spherical, Int[Array, ""]]:
    """Return the deviations that maximise the expected log-likelihood, and no jitters."""
    square = jnp.maximum(jnp.mean(variance(moments), axis=1), floor)
    return Spherical(jnp.sqrt(square)), jnp.zeros((), jnp.int32)


DIAG = Family(scatter, spread, estimate_diag)
SPHERICAL = Family(scatter, spread, estimate_spherical)
