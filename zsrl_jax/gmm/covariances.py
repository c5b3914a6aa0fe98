"""The types of covariance: a matrix per component, its diagonal, a number, or one matrix for all.

    log N(x | mu, L L^T) = -1/2 |L^-1 (x - mu)|^2 - sum log diag L - d/2 log 2 pi

`Full`: Sigma_k <- sum_n r_nk (x_n - xbar_k)(x_n - xbar_k)^T / N_k + floor I.
    Components are taken one after another, each as one large matrix product over the points of a
    chunk: no buffer of points x components x dimensions exists, and x - mu is formed before it is
    multiplied, so nothing cancels. L^-1 is triangular and the scatter symmetric: both products are
    cut into blocks, and zero or mirrored blocks are left out. This saves up to 3/8 of the
    4 N K d^2 operations of an iteration.
`Diag`, `Spherical`: s_kj^2 <- max(sum_n r_nk (x_nj - xbar_kj)^2 / N_k, floor); its mean over j.
    The floor is the maximum-likelihood solution under s^2 >= floor, so EM never loses.
`Tied`: Sigma <- sum_nk r_nk (x_n - xbar_k)(x_n - xbar_k)^T / N + floor I.
    The sum over components needs no product per component. With m_n = sum_k p_nk xbar_k, a point's
    expected mean, it splits into two parts that are both positive,
        sum_n w_n (x_n - m_n)(x_n - m_n)^T + sum_{j<k} a_jk (xbar_j - xbar_k)(xbar_j - xbar_k)^T,
    where a_jk = sum_n w_n p_nj p_nk: one product over the points, and a Laplacian of size k.

Covariances of low rank are in `low_rank`.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.gmm.linalg import HIGHEST, factorize, invert, log_constant, product_by_component
from zsrl_jax.gmm.moments import Density, Family, Moments, Scorer, bound_width, by_component


class Full(NamedTuple):
    """Cholesky factors of the covariances."""

    cholesky: Float[Array, "k d d"]

    def scorer(self, mean: Float[Array, "k d"]) -> Scorer:
        """Return the function that gives the log density of points under each component."""
        return self.density(mean).scorer()

    def density(self, mean: Float[Array, "k d"]) -> Density:
        """Return the log density of one component at a time, and an upper bound of it."""
        parts = mean, invert(self.cholesky), log_constant(self.cholesky)
        few = bound_width(mean.shape[1])

        def exact(part, x: Float[Array, "n d"]) -> Float[Array, " n"]:
            mu, factor, constant = part
            return constant - 0.5 * whitened_norm(x - mu[None], factor)

        def upper(part, x: Float[Array, "n d"]) -> Float[Array, " n"]:
            mu, factor, constant = part
            return exact((mu[:few], factor[:few, :few], constant), x[:, :few])

        return Density(parts, exact, upper)

    def draw(
        self, key: Key[Array, ""], component: Int[Array, " n"], dim: int
    ) -> Float[Array, "n {dim}"]:
        """Draw points around zero, each with its component's covariance."""
        noise = jax.random.normal(key, (*component.shape, dim), self.cholesky.dtype)
        return product_by_component(component, noise, self.cholesky)

    def cholesky_factors(self, dim: int) -> Float[Array, "k d d"]:
        """Return the Cholesky factors of the covariances."""
        return self.cholesky

    def scaled(self, scale: Float[Array, ""]) -> "Full":
        """Return the covariances of scale * x."""
        return Full(self.cholesky * scale)

    def take(self, index: Int[Array, " k"]) -> "Full":
        """Return the covariances of these components."""
        return Full(self.cholesky[index])

    def parameter_count(self, dim: int) -> tuple[int, int]:
        """Count free covariance parameters: of each component, and shared."""
        return dim * (dim + 1) // 2, 0


def blocks(dim: int) -> list[tuple[int, int]]:
    """Cut a dimension into up to four column blocks, each large enough for fast products."""
    count = 4 if dim >= 512 else 2 if dim >= 128 else 1
    edges = [dim * i // count for i in range(count + 1)]
    return list(zip(edges[:-1], edges[1:], strict=True))


def whitened_norm(x: Float[Array, "n d"], upper: Float[Array, "d d"]) -> Float[Array, " n"]:
    """Compute |x U|^2 per row, for upper triangular U."""
    total = jnp.zeros(x.shape[0], x.dtype)
    for low, high in blocks(x.shape[1]):
        y = jnp.matmul(x[:, :high], upper[:high, low:high], precision=HIGHEST)
        total = total + jnp.sum(y * y, axis=1)
    return total


def gram(x: Float[Array, "n d"]) -> Float[Array, "d d"]:
    """Compute x^T x from its upper blocks."""
    cuts = blocks(x.shape[1])
    if len(cuts) == 1:
        return jnp.matmul(x.T, x, precision=HIGHEST)
    out = jnp.zeros((x.shape[1], x.shape[1]), x.dtype)
    for low, high in cuts:
        block = jnp.matmul(x[:, low:high].T, x[:, low:], precision=HIGHEST)
        out = out.at[low:high, low:].set(block)
        out = out.at[high:, low:high].set(block[:, high - low :].T)
    return out


def full_scatter_of_one(
    part: tuple[Array, tuple], x: Float[Array, "n d"], weight: Float[Array, " n"]
) -> Float[Array, "d d"]:
    """Sum the outer products of the points, centred on one component."""
    return gram((x - part[0][None]) * jnp.sqrt(weight)[:, None])


def full_scatter_of_point(
    delta: Float[Array, "k d"], weight: Float[Array, " k"], frame: tuple
) -> Float[Array, "k d d"]:
    """Return the scatter of one weighted point per component."""
    return delta[:, :, None] * delta[:, None, :] * weight[:, None, None]


def estimate_full(
    moments: Moments, frame: tuple, floor: Float[Array, ""]
) -> tuple[Full, Int[Array, ""]]:
    """Return the covariances that maximise the expected log-likelihood, and the jitters added."""
    mass = jnp.maximum(moments.mass, 1e-6)
    cholesky, jitters = factorize(moments.scatter / mass[:, None, None], floor)
    return Full(cholesky), jitters


FULL = Family(
    by_component(full_scatter_of_one),
    full_scatter_of_point,
    estimate_full,
    each=full_scatter_of_one,
)


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
    """One standard deviation per component."""

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


def axis_scatter(
    x: Float[Array, "n d"], share: Float[Array, "k n"], mean: Float[Array, "k d"], frame: tuple
) -> Float[Array, "k d"]:
    """Sum the centred squares of the points, by component."""

    def one(args):
        mu, weight = args
        return jnp.matmul(weight, jnp.square(x - mu[None]), precision=lax.Precision.HIGHEST)

    return lax.map(one, (mean, share))


def axis_scatter_of_point(
    delta: Float[Array, "k d"], weight: Float[Array, " k"], frame: tuple
) -> Float[Array, "k d"]:
    """Return the axis_scatter of one weighted point per component."""
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


DIAG = Family(axis_scatter, axis_scatter_of_point, estimate_diag)
SPHERICAL = Family(axis_scatter, axis_scatter_of_point, estimate_spherical)


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


def tied_scatter(
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


def tied_scatter_of_point(
    delta: Float[Array, "k d"], weight: Float[Array, " k"], frame: tuple
) -> Float[Array, "d d"]:
    """Return the tied_scatter of one weighted point per component."""
    return gram(delta * jnp.sqrt(weight)[:, None])


def estimate_tied(
    moments: Moments, frame: tuple, floor: Float[Array, ""]
) -> tuple[Tied, Int[Array, ""]]:
    """Return the covariance that maximises the expected log-likelihood, and the jitters added."""
    total = jnp.maximum(jnp.sum(moments.mass), 1e-6)
    cholesky, jitters = factorize((moments.scatter / total)[None], floor)
    return Tied(cholesky[0]), jitters


TIED = Family(tied_scatter, tied_scatter_of_point, estimate_tied)
