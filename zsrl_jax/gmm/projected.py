"""The directions of a Gaussian mixture's samples: their density on the unit sphere.

    p(u) = sum_k w_k int_0^inf r^{d-1} N(r u | mu_k, Sigma_k) dr

A mixture of Gaussians whose samples are projected to the sphere is a density of directions; only
so can its likelihood be compared with that of a distribution on the sphere. The integrand has one
peak in r; it is integrated on a grid around it.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zsrl_jax.gmm.mixture import Mixture

GRID, WIDE = 129, 9.0  # points of the integral, and its half width in deviations
LARGEST = 2000  # directions at most: of more, the first


def projected_score(mixture: Mixture, x: Float[Array, "n d"]) -> Float[Array, ""]:
    """Compute the mean log-likelihood of points' directions under the projected mixture."""
    unit = x[:LARGEST]
    unit = unit / jnp.linalg.norm(unit, axis=1, keepdims=True)
    return jnp.mean(projected_log_prob(mixture, unit))


def projected_log_prob(mixture: Mixture, unit: Float[Array, "n d"]) -> Float[Array, " n"]:
    """Compute the log density of unit vectors."""
    dim = unit.shape[1]
    factors = mixture.covariance.cholesky_factors(dim)
    factors = jnp.broadcast_to(factors, (*mixture.means.shape, dim))

    def component(log_weight, mean, factor):
        both = jnp.concatenate([unit, mean[None]]).T
        white = jax.scipy.linalg.solve_triangular(factor, both, lower=True)
        way, start = white[:, :-1].T, white[:, -1]
        volume = jnp.sum(jnp.log(jnp.diagonal(factor))) + 0.5 * dim * math.log(2 * math.pi)
        return log_weight - volume + _radial(way, start, dim)

    joint = jax.lax.map(lambda one: component(*one), (mixture.log_weights, mixture.means, factors))
    return jax.nn.logsumexp(joint, axis=0)


def _radial(way: Float[Array, "n d"], start: Float[Array, " d"], dim: int) -> Float[Array, " n"]:
    """Return log int r^{d-1} exp(-|r way - start|^2 / 2) dr."""
    square = jnp.sum(way * way, axis=1)
    along = way @ start
    off = jnp.sum((start[None] - (along / square)[:, None] * way) ** 2, axis=1)  # at its nearest
    centre, power = along / square, dim - 1
    peak = 0.5 * (centre + jnp.sqrt(centre**2 + 4 * power / square))
    peak = jnp.maximum(peak, 1e-6 * jax.lax.rsqrt(square))
    deviation = jax.lax.rsqrt(square + power / peak**2)
    low = jnp.maximum(peak - WIDE * deviation, 0.0)
    step = (peak + WIDE * deviation - low) / (GRID - 1)
    r = low[:, None] + step[:, None] * jnp.arange(GRID)[None]
    inside = (
        power * jnp.log(jnp.maximum(r, 1e-30)) - 0.5 * square[:, None] * (r - centre[:, None]) ** 2
    )
    return jax.nn.logsumexp(inside, axis=1) + jnp.log(step) - 0.5 * off
