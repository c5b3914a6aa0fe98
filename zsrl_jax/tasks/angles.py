"""The angle t between a von Mises-Fisher direction and its mean: density, integrals, kappa.

    p(t) ~ exp(kappa cos t) sin(t)^{d-2},     0 <= t <= pi
    Z(kappa) = |S^{d-2}| int_0^pi exp(kappa cos t) sin(t)^{d-2} dt

The density has one peak and is integrated on a grid around it, for every d and kappa: no Bessel
functions, and no overflow. kappa lies between LEAST (nearly uniform) and MOST.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

LEAST, MOST = 1e-3, 1e5  # of kappa
GRID, WIDE = 513, 9.0  # points of an integral, and its half width in deviations of the angle
HALVINGS = 40
TINY = 1e-30


def density_of_angles(kappa: Float[Array, " k"], dim: int) -> tuple[Array, Array]:
    """Return a grid of angles around each peak, and exp(kappa (cos t - 1)) sin^{d-2} there.

    The density is relative to its largest value on the grid.
    """
    angle, log_density = _log_angles(kappa, dim)
    return angle, jnp.exp(log_density - jnp.max(log_density, axis=1, keepdims=True))


def _log_angles(kappa: Float[Array, " k"], dim: int) -> tuple[Array, Array]:
    power = max(dim - 2, 0)
    cosine = 2 * kappa / (power + jnp.sqrt(power**2 + 4 * kappa**2))
    peak = jnp.arccos(jnp.minimum(cosine, 1.0))  # rounding can give more than 1
    curve = kappa * jnp.cos(peak) + power / jnp.maximum(jnp.sin(peak) ** 2, 1e-12)
    deviation = lax.rsqrt(jnp.maximum(jnp.where(peak > 0, curve, kappa), 1e-6))
    low = jnp.maximum(peak - WIDE * deviation, 0.0)
    high = jnp.minimum(peak + WIDE * deviation, math.pi)
    angle = low[:, None] + (high - low)[:, None] * jnp.linspace(0.0, 1.0, GRID)[None]
    sine = jnp.log(jnp.maximum(jnp.sin(angle), TINY))
    return angle, -2 * kappa[:, None] * jnp.sin(angle / 2) ** 2 + power * sine


def log_normalizer(kappa: Float[Array, " k"], dim: int) -> Float[Array, " k"]:
    """Return log Z(kappa) - kappa."""
    angle, log_density = _log_angles(kappa, dim)
    step = jnp.log(jnp.maximum(angle[:, 1] - angle[:, 0], TINY))
    ends = jnp.zeros(GRID).at[jnp.array([0, -1])].set(math.log(0.5))  # the trapezoid rule
    half = (dim - 1) / 2
    across = math.log(2) + half * math.log(math.pi) - math.lgamma(half) if dim > 1 else 0.0
    return jax.nn.logsumexp(log_density + ends[None], axis=1) + step + across


def mean_gap(kappa: Float[Array, " k"], dim: int) -> Float[Array, " k"]:
    """Return E[1 - cos t], which falls with kappa."""
    angle, density = density_of_angles(kappa, dim)
    density = density.at[:, jnp.array([0, -1])].multiply(0.5)
    gap = 2 * jnp.sin(angle / 2) ** 2
    return jnp.sum(density * gap, axis=1) / jnp.sum(density, axis=1)


def concentration(gap: Float[Array, " k"], dim: int) -> Float[Array, " k"]:
    """Return the kappa of a mean gap 1 - |R| / n, by bisection of its logarithm."""

    def halve(ends, _):
        low, high = ends
        middle = 0.5 * (low + high)
        wide = mean_gap(jnp.exp(middle), dim) > gap
        return (jnp.where(wide, middle, low), jnp.where(wide, high, middle)), None

    ends = jnp.full_like(gap, math.log(LEAST)), jnp.full_like(gap, math.log(MOST))
    (low, high), _ = lax.scan(halve, ends, None, length=HALVINGS)
    return jnp.exp(0.5 * (low + high))
