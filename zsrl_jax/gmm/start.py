"""Where EM starts: k-means++ seeds (Arthur and Vassilvitskii 2007), then a few Lloyd steps.

    next seed ~ w_n min_k |x_n - c_k|^2          c_k <- mean of the points nearest to c_k

Centres hold in the normalised units of `Data`.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from zsrl_jax.gmm.moments import Data, Family, Responsibility, gather


def seed_centers(key: Key[Array, ""], data: Data, num: int, chunk: int) -> Float[Array, "k d"]:
    """Draw k-means++ centres from the data."""
    log_weight = jnp.log(data.weight)
    keys = jax.random.split(key, num)
    first = data.rows(jax.random.categorical(keys[0], log_weight)[None])[0]

    def add(state, key_draw):
        nearest, center = state
        nearest = jnp.minimum(nearest, squared_distance(data, center, chunk))
        far = jnp.log(nearest) + log_weight
        # All points lie on centres already: any point will do.
        far = jnp.where(jnp.any(far > -jnp.inf), far, log_weight)
        center = data.rows(jax.random.categorical(key_draw, far)[None])[0]
        return (nearest, center), center

    nearest = jnp.full(data.x.shape[0], jnp.inf, data.x.dtype)
    rest = lax.scan(add, (nearest, first), keys[1:])[1]
    return jnp.concatenate([first[None], rest])


def squared_distance(data: Data, center: Float[Array, " d"], chunk: int) -> Float[Array, " n"]:
    """Compute the squared distance of every point to one centre."""
    total, dim = data.x.shape
    chunk = min(chunk, total)

    def step(distance, start):
        begin = jnp.minimum(start, total - chunk)
        rows = lax.dynamic_slice(data.x, (begin, 0), (chunk, dim)) - data.shift[None]
        value = jnp.sum(jnp.square(rows / data.scale - center[None]), axis=1)
        weight = lax.dynamic_slice(data.weight, (begin,), (chunk,))
        value = jnp.where(weight > 0, value, 0.0)
        return lax.dynamic_update_slice(distance, value, (begin,)), None

    return lax.scan(step, jnp.zeros(total, data.x.dtype), jnp.arange(0, total, chunk))[0]


def nearest_center(center: Float[Array, "k d"], active: Bool[Array, " k"]) -> Responsibility:
    """Return the responsibilities that give each point to its nearest centre."""
    square = jnp.where(active, jnp.sum(center * center, axis=1), jnp.inf)

    def respond(x: Float[Array, "n d"], index: Int[Array, " n"]):
        product = jnp.matmul(center, x.T, precision=lax.Precision.HIGHEST)
        distance = square[:, None] - 2.0 * product
        chosen = jnp.argmin(distance, axis=0)
        share = (chosen[None] == jnp.arange(center.shape[0])[:, None]).astype(x.dtype)
        return share, -jnp.min(distance, axis=0) - jnp.sum(x * x, axis=1)

    return respond


def lloyd(
    center: Float[Array, "k d"], data: Data, active: Bool[Array, " k"], steps: int, chunk: int
) -> Float[Array, "k d"]:
    """Move centres to the mean of their points; a centre without points stays."""

    def step(center, _):
        respond = nearest_center(center, active)
        moments = gather(data, center.shape[0], chunk, respond, MEANS_ONLY, ())[0]
        return jnp.where((moments.mass > 0)[:, None], moments.mean, center), None

    return lax.scan(step, center, length=steps)[0]


MEANS_ONLY = Family(
    scatter=lambda x, share, mean, frame: (),
    spread=lambda delta, weight, frame: (),
    estimate=lambda moments, frame, floor: ((), 0),
)
