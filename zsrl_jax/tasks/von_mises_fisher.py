"""Mixtures of von Mises-Fisher distributions: task vectors are directions, so fit directions.

    p(u) = sum_k w_k exp(kappa_k mu_k.u) / Z(kappa_k)       on the unit sphere of R^d
    Z(kappa) = |S^{d-2}| int_0^pi exp(kappa cos t) sin(t)^{d-2} dt
    EM:  R_k = sum_n r_nk u_n,   mu_k = R_k / |R_k|,   E_kappa[cos t] = |R_k| / sum_n r_nk

(Banerjee et al., 2005.) Z, mean cosines and kappa are in `angles`. kappa has a largest value, so no
component can shrink to a point. Rows that are not finite, or 0, are left out. A component that
loses its points keeps its place with next to no weight.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from zsrl_jax.tasks.angles import TINY, concentration, density_of_angles, log_normalizer


class Directions(NamedTuple):
    """A fitted mixture: log weights, unit mean directions, concentrations."""

    log_weights: Float[Array, "*s k"]
    means: Float[Array, "*s k d"]
    kappa: Float[Array, "*s k"]

    def log_prob(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Compute the log density of the directions of points, on the unit sphere."""
        return jax.nn.logsumexp(_joint(self, to_sphere(x)[0]), axis=1)

    def score(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """Compute the mean log-likelihood of the directions of points."""
        return jnp.mean(self.log_prob(x))

    def sample(self, key: Key[Array, ""], n: int) -> Float[Array, "n d"]:
        """Draw unit vectors: a component, an angle to its mean, and a direction across."""
        key_component, key_angle, key_across = jax.random.split(key, 3)
        dim = self.means.shape[-1]
        component = jax.random.categorical(key_component, self.log_weights, shape=(n,))
        angle, density = density_of_angles(self.kappa, dim)
        area = jnp.cumsum(0.5 * (density[:, 1:] + density[:, :-1]), axis=1)
        below = jnp.pad(area / area[:, -1:], ((0, 0), (1, 0)))
        level = jax.random.uniform(key_angle, (n,))
        drawn = jax.vmap(jnp.interp)(level, below[component], angle[component])
        mean = self.means[component]
        across = jax.random.normal(key_across, (n, dim))
        across = across - jnp.sum(across * mean, axis=1, keepdims=True) * mean
        across = to_sphere(across)[0]
        return jnp.cos(drawn)[:, None] * mean + jnp.sin(drawn)[:, None] * across


class Climb(NamedTuple):
    """The mean log-likelihood after 0, 1, 2, ... iterations; the last value is repeated."""

    log_likelihood: Float[Array, "*s i"]
    iterations: Int[Array, "*s"]
    converged: Bool[Array, "*s"]
    dropped: Int[Array, "*s"]  # rows that were left out


def to_sphere(x: Float[Array, "n d"]) -> tuple[Float[Array, "n d"], Bool[Array, " n"]]:
    """Return unit vectors and which rows have one; others become the first axis."""
    size = jnp.max(jnp.abs(x), axis=1, keepdims=True)
    good = (jnp.isfinite(x).all(axis=1, keepdims=True) & (size > TINY))[:, 0]
    first = jnp.zeros(x.shape[1]).at[0].set(1.0)
    scaled = jnp.where(good[:, None], x / jnp.where(good[:, None], size, 1.0), first[None])
    return scaled / jnp.linalg.norm(scaled, axis=1, keepdims=True), good


def _joint(mixture: Directions, unit: Float[Array, "n d"]) -> Float[Array, "n k"]:
    """Return log w_k + log p_k(u) of unit vectors."""
    kappa, dim = mixture.kappa, unit.shape[1]
    near = jnp.matmul(unit, mixture.means.T, precision=lax.Precision.HIGHEST) - 1.0
    return (mixture.log_weights - log_normalizer(kappa, dim))[None] + kappa[None] * near


def _maximize(old: Directions, unit: Array, share: Float[Array, "n k"]) -> Directions:
    """Return the mixture that is likeliest for these shares of the points."""
    count = jnp.sum(share, axis=0)
    total = jnp.matmul(share.T, unit, precision=lax.Precision.HIGHEST)
    length = jnp.linalg.norm(total, axis=1)
    has = (count > 1e-3) & (length > 1e-6 * count)
    mean = total / jnp.where(has, length, 1.0)[:, None]
    gap = jnp.clip(1.0 - length / jnp.maximum(count, TINY), 0.0, 1.0)
    weights = jnp.maximum(count, 1e-6) / jnp.sum(jnp.maximum(count, 1e-6))
    return Directions(
        jnp.log(weights),
        jnp.where(has[:, None], mean, old.means),
        jnp.where(has, concentration(gap, unit.shape[1]), old.kappa),
    )


def _start(key: Key[Array, ""], unit: Array, weight: Array, num: int) -> Directions:
    """Draw means among the points, each with a chance that grows with its distance to the rest."""

    def pick(carry, key):
        nearest, far = carry
        index = jax.random.categorical(key, jnp.log(weight * (far + 1e-9) + TINY))
        mean = unit[index]
        nearest = jnp.maximum(nearest, unit @ mean)
        return (nearest, jnp.clip(1 - nearest, 0.0, 2.0)), mean

    first = jnp.full(len(unit), -1.0), jnp.ones(len(unit))
    (nearest, _), means = lax.scan(pick, first, jax.random.split(key, num))
    gap = jnp.sum(weight * (1 - nearest)) / jnp.maximum(jnp.sum(weight), 1.0)
    kappa = concentration(jnp.clip(gap, 0.0, 1.0)[None], unit.shape[1])
    return Directions(jnp.full(num, -math.log(num)), means, jnp.tile(kappa, num))


def fit(
    key: Key[Array, ""],
    x: Float[Array, "n d"],
    num_components: int,
    num_iters: int = 100,
    tolerance: float = 1e-3,
) -> tuple[Directions, Climb]:
    """Fit a mixture to the directions of points by EM; the likelihood never falls."""
    unit, good = to_sphere(jnp.asarray(x, jnp.float32))
    weight = good.astype(jnp.float32)
    total = jnp.maximum(jnp.sum(weight), 1.0)

    def expect(mixture: Directions) -> tuple[Array, Array]:
        joint = _joint(mixture, unit)
        each = jax.nn.logsumexp(joint, axis=1)
        share = weight[:, None] * jnp.exp(joint - each[:, None])
        return jnp.sum(weight * each) / total, share

    def go_on(carry):
        step, _, _, _, gain = carry
        return (step < num_iters) & (gain > tolerance)

    def iterate(carry):
        step, mixture, share, trace, _ = carry
        new = _maximize(mixture, unit, share)
        likelihood, new_share = expect(new)
        gain = likelihood - trace[step]
        better = gain >= 0
        keep = lambda a, b: jnp.where(better, a, b)  # noqa: E731
        mixture = jax.tree.map(keep, new, mixture)
        trace = trace.at[step + 1].set(jnp.maximum(likelihood, trace[step]))
        return step + 1, mixture, keep(new_share, share), trace, gain

    mixture = _start(key, unit, weight, num_components)
    likelihood, share = expect(mixture)
    trace = jnp.zeros(num_iters + 1).at[0].set(likelihood)
    carry = jnp.asarray(0), mixture, share, trace, jnp.asarray(jnp.inf)
    step, mixture, _, trace, gain = lax.while_loop(go_on, iterate, carry)
    trace = trace[jnp.minimum(jnp.arange(num_iters + 1), step)]
    dropped = jnp.sum(~good, dtype=jnp.int32)
    return mixture, Climb(trace, step, gain <= tolerance, dropped)
