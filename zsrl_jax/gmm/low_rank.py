"""Mixture of factor analysers (Ghahramani and Hinton 1996): Sigma_k = W_k W_k^T + diag(s_k)^2.

    y = (x - mu) / s,  V = W / s,  M = I + V^T V,  z = M^-1 V^T y = E[factors | x]
    log N(x) = -1/2 (|y - V z|^2 + |z|^2) - sum log s - 1/2 log det M - d/2 log 2 pi

Only products of points with rank columns are formed, so an iteration costs 10 N K d rank operations
instead of 4 N K d^2. The quadratic form is Woodbury's identity written as a sum of squares, which
cannot cancel.

EM needs moments of the expected factors z, and gives new loadings and noise:

    B = M^-1 V^T / s,  z_n = B (x_n - xbar),  e_n = x_n - xbar - W z_n,  G = E[z z^T] + M^-1
    D = (E[e z^T] - W M^-1) G^-1,  W <- (W + D) chol(G)
    s^2 <- max(diag(E[e e^T] - 2 D E[z e^T] + D E[z z^T] D^T + (W + D) M^-1 (W + D)^T), floor)

E is the mean over a component's points. The noise is computed from the residuals e, not as
diag(S - W W^T), which cancels. The factor chol(G) is the parameter-expanded step of Liu, Rubin and
Wu (1998): it has the fixed points of plain EM, is monotone, and takes fewer iterations. The start
is the leading subspace of the scatter by power iteration: the same formula with M^-1 = 0.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.gmm.linalg import HIGHEST, factorize, invert, product_by_component, solve
from zsrl_jax.gmm.moments import Density, Family, Moments, Scorer, bound_width, by_component


class LowRank(NamedTuple):
    """Loadings of the factors and standard deviations of the noise."""

    loadings: Float[Array, "k d q"]
    noise: Float[Array, "k d"]

    def scorer(self, mean: Float[Array, "k d"]) -> Scorer:
        """Return the function that gives the log density of points under each component."""
        return self.density(mean).scorer()

    def density(self, mean: Float[Array, "k d"]) -> Density:
        """Return the log density of one component at a time, and an upper bound of it."""
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


POWER_STEPS = 2


class Frame(NamedTuple):
    """B maps centred points to factors, W factors to points; M^-1 is the factors' covariance."""

    read: Float[Array, "k q d"]
    write: Float[Array, "k d q"]
    unsure: Float[Array, "k q q"]


class Projected(NamedTuple):
    """Sums over points of e z^T, z z^T and e^2."""

    cross: Float[Array, "*k d q"]
    inner: Float[Array, "*k q q"]
    rest: Float[Array, "*k d"]


def frame(covariance: LowRank) -> Frame:
    """Return B, W and M^-1 of the current parameters."""
    inverse = 1.0 / covariance.noise
    factor, read = reader(covariance.loadings * inverse[:, :, None])
    root = invert(factor)
    unsure = jnp.matmul(root, root.swapaxes(1, 2), precision=HIGHEST)
    return Frame(read * inverse[:, None, :], covariance.loadings, unsure)


def start(
    key: Key[Array, ""], measure: Callable[[Frame], Moments], num: int, dim: int, rank: int
) -> Frame:
    """Return the frame of the leading directions of each component's scatter."""

    def orthogonal(columns: Float[Array, "k d q"]) -> Frame:
        basis = jnp.linalg.qr(columns)[0]
        return Frame(basis.transpose(0, 2, 1), basis, jnp.zeros((num, rank, rank)))

    def turn(frame: Frame, _):
        seen = measure(frame).scatter
        inner = jnp.einsum("kdq,kqp->kdp", frame.write, seen.inner, precision=HIGHEST)
        return orthogonal(seen.cross + inner), None

    first = orthogonal(jax.random.normal(key, (num, dim, rank)))
    return lax.scan(turn, first, length=POWER_STEPS)[0]


def project(
    local: Float[Array, "n d"], weight: Float[Array, " n"], frame: tuple[Array, Array]
) -> Projected:
    """Sum the moments of factors and residuals over centred points."""
    read, write = frame
    code = jnp.matmul(local, read.T, precision=HIGHEST)
    rest = local - jnp.matmul(code, write.T, precision=HIGHEST)
    heavy = code * weight[:, None]
    return Projected(
        jnp.matmul(rest.T, heavy, precision=HIGHEST),
        jnp.matmul(code.T, heavy, precision=HIGHEST),
        jnp.matmul(weight, rest * rest, precision=HIGHEST),
    )


def scatter_one(
    part: tuple[Array, Frame], x: Float[Array, "n d"], weight: Float[Array, " n"]
) -> Projected:
    """Project the points, centred on one component."""
    mu, frame = part
    return project(x - mu[None], weight, (frame.read, frame.write))


def scatter_of_point(
    delta: Float[Array, "k d"], weight: Float[Array, " k"], frame: Frame
) -> Projected:
    """Return the scatter of one weighted point per component."""

    def one(point, weight, read, write):
        return project(point[None], weight[None], (read, write))

    return jax.vmap(one)(delta, weight, frame.read, frame.write)


def estimate(
    moments: Moments, frame: Frame, floor: Float[Array, ""]
) -> tuple[LowRank, Int[Array, ""]]:
    """Return loadings and noise that raise the expected log-likelihood, and the jitters added."""
    mass = jnp.maximum(moments.mass, 1e-6)
    cross, inner, rest = (
        part / mass.reshape(-1, *[1] * (part.ndim - 1)) for part in moments.scatter
    )
    inner = 0.5 * (inner + inner.transpose(0, 2, 1))
    factor, jitters = factorize(inner + frame.unsure, floor)
    residual = cross - jnp.matmul(frame.write, frame.unsure, precision=HIGHEST)
    step = solve(invert(factor), residual.swapaxes(1, 2)).swapaxes(1, 2)
    write = frame.write + step
    moved = jnp.matmul(step, inner, precision=HIGHEST) - 2.0 * cross
    doubt = jnp.matmul(write, frame.unsure, precision=HIGHEST)
    square = rest + jnp.sum(step * moved + write * doubt, axis=2)
    loadings = jnp.matmul(write, factor, precision=HIGHEST)
    return LowRank(loadings, jnp.sqrt(jnp.maximum(square, floor))), jitters


LOW_RANK = Family(by_component(scatter_one), scatter_of_point, estimate, frame, start, scatter_one)
