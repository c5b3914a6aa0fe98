"""EM for factor analysers: moments of what the factors read, and the new loadings and noise.

    B = M^-1 V^T / s,  z_n = B (x_n - xbar),  e_n = x_n - xbar - W z_n,  G = E[z z^T] + M^-1
    D = (E[e z^T] - W M^-1) G^-1,  W <- (W + D) chol(G)
    s^2 <- max(diag(E[e e^T] - 2 D E[z e^T] + D E[z z^T] D^T + (W + D) M^-1 (W + D)^T), floor)

E is the mean over a component's points. The noise is found from what the factors leave over (e),
not as diag(S - W W^T), which cancels. The factor chol(G) is the parameter-expanded step of Liu,
Rubin and Wu (1998): the fixed points of plain EM, still monotone, fewer iterations. The start is
the leading subspace of the scatter by power iteration, which is the same formula with M^-1 = 0.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.gmm.cholesky import HIGHEST, factorize, invert, solve
from zsrl_jax.gmm.low_rank import LowRank, reader
from zsrl_jax.gmm.moments import Family, Moments, by_component

POWER_STEPS = 2


class Frame(NamedTuple):
    """How factors are read off centred points (B), written back (W), and what is unsure (M^-1)."""

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
    """Return the frame that reads off the leading directions of each component's scatter."""

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
    """Sum over centred points what the factors read and what they leave."""
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


def spread(delta: Float[Array, "k d"], weight: Float[Array, " k"], frame: Frame) -> Projected:
    """Return the scatter of one weighted point a component."""

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


LOW_RANK = Family(by_component(scatter_one), spread, estimate, frame, start, scatter_one)
