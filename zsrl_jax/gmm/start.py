"""Where EM starts: k-means++ seeds (Arthur and Vassilvitskii 2007), then a few Lloyd steps.

    next seed ~ w_n min_k |x_n - c_k|^2          c_k <- mean of the points nearest to c_k

Greedy seeds draw several candidates and keep the one that leaves the least sum of w_n min_k |...|^2
(the inertia). Of several starts the one of least inertia goes on.

Before that the data are normalised: centres, and all of EM, are in the units of `Data`.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from zsrl_jax.gmm.covariances import DIAG, variance
from zsrl_jax.gmm.moments import Data, Family, Responsibility, gather, largest, map_rows


def normalize(
    x: Float[Array, "n d"], weight: Float[Array, " n"], chunk: int
) -> tuple[Data, Float[Array, ""]]:
    """Return the data with mean zero and a variance between 1/2 and 2, and that variance."""
    size = map_rows(largest, x, chunk)
    usable = (weight > 0) & jnp.isfinite(size)
    weight = jnp.where(usable, weight, 0.0)
    weight = weight / jnp.maximum(jnp.max(weight), 1e-30)
    weight = weight * (jnp.sum(usable) / jnp.maximum(jnp.sum(weight), 1e-30))
    origin = x[jnp.argmax(usable)]
    size = map_rows(lambda rows: largest(rows - origin[None]), x, chunk)
    extent = jnp.max(jnp.where(usable, size, 0.0))
    extent = jnp.where(extent > 0, extent, 1.0)

    def everything(x: Float[Array, "n d"], index: Int[Array, " n"]):
        return jnp.ones((1, x.shape[0]), x.dtype), jnp.zeros(x.shape[0], x.dtype)

    moments = gather(Data(x, weight, origin, extent), 1, chunk, everything, DIAG, ())[0]
    rms = extent * jnp.sqrt(jnp.mean(variance(moments)))
    rms = jnp.where(rms > 0, rms, 1.0)
    scale = jnp.ldexp(jnp.ones((), x.dtype), jnp.round(jnp.log2(rms)).astype(jnp.int32))
    return Data(x, weight, origin + moments.mean[0] * extent, scale), jnp.square(rms / scale)


def seed_centers(key: Key[Array, ""], data: Data, num: int, chunk: int) -> Float[Array, "k d"]:
    """Draw plain k-means++ centres from the data."""
    log_weight = jnp.log(data.weight)

    def add(nearest, key_draw):
        # Infinite before the first draw; all 0 if every point lies on a centre: then any will do.
        far = jnp.where(jnp.isinf(nearest), 0.0, jnp.log(nearest)) + log_weight
        far = jnp.where(jnp.any(far > -jnp.inf), far, log_weight)
        center = data.rows(jax.random.categorical(key_draw, far)[None])[0]
        return jnp.minimum(nearest, squared_distance(data, center, chunk)), center

    nearest = jnp.full(data.x.shape[0], jnp.inf, data.x.dtype)
    return lax.scan(add, nearest, jax.random.split(key, num))[1]


def greedy_centers(
    key: Key[Array, ""], data: Data, num: int, chunk: int, candidates: int
) -> Float[Array, "k d"]:
    """Draw k-means++ centres from the data, each the candidate that leaves the least inertia."""

    def add(nearest, key_draw):
        potential = jnp.where(jnp.isinf(nearest), 1.0, nearest) * data.weight
        potential = jnp.where(jnp.any(potential > 0), potential, data.weight)
        place = draw_places(key_draw, potential, candidates)
        center = data.rows(place)
        left = jnp.minimum(nearest[None], squared_distances(data, center, chunk))
        best = jnp.argmin(jnp.matmul(left, data.weight, precision=lax.Precision.HIGHEST))
        return left[best], center[best]

    nearest = jnp.full(data.x.shape[0], jnp.inf, data.x.dtype)
    return lax.scan(add, nearest, jax.random.split(key, num))[1]


def draw_places(key: Key[Array, ""], share: Float[Array, " n"], num: int) -> Int[Array, " {num}"]:
    """Draw indices with probabilities in proportion to the shares."""
    level = jnp.cumsum(share)
    drawn = jax.random.uniform(key, (num,), level.dtype) * level[-1]
    # Rounding may draw the whole sum: that is the last point with any share.
    last = share.shape[0] - 1 - jnp.argmax(share[::-1] > 0)
    return jnp.minimum(jnp.searchsorted(level, drawn, side="right"), last)


def squared_distances(data: Data, center: Float[Array, "c d"], chunk: int) -> Float[Array, "c n"]:
    """Compute the squared distances of every point to some centres; what is rounding is zero."""
    square = jnp.sum(center * center, axis=1)[:, None]

    def distance(x: Float[Array, "m d"]) -> Float[Array, "c m"]:
        size = square + jnp.sum(x * x, axis=1)[None]
        found = size - 2.0 * jnp.matmul(center, x.T, precision=lax.Precision.HIGHEST)
        return jnp.where(found > 1e-6 * size, found, 0.0)

    return data.map_points(distance, chunk)


def squared_distance(data: Data, center: Float[Array, " d"], chunk: int) -> Float[Array, " n"]:
    """Compute the squared distance of every point to one centre."""

    def distance(rows: Float[Array, "m d"]) -> Float[Array, " m"]:
        local = (rows - data.shift[None]) / data.scale
        return jnp.sum(jnp.square(local - center[None]), axis=1)

    return jnp.where(data.weight > 0, map_rows(distance, data.x, chunk), 0.0)


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


def nearest_label(
    center: Float[Array, "k d"], data: Data, active: Bool[Array, " k"], chunk: int
) -> Int[Array, " n"]:
    """Return the nearest centre of each point."""
    square = jnp.where(active, jnp.sum(center * center, axis=1), jnp.inf)[:, None]

    def find(x: Float[Array, "m d"]) -> Int[Array, " m"]:
        distance = square - 2.0 * jnp.matmul(center, x.T, precision=lax.Precision.HIGHEST)
        return jnp.argmin(distance, axis=0).astype(jnp.int32)

    return data.map_points(find, chunk)


def lloyd(
    center: Float[Array, "k d"], data: Data, active: Bool[Array, " k"], steps: int, chunk: int
) -> Float[Array, "k d"]:
    """Move centres to the mean of their points; a centre without points stays."""

    def step(center, _):
        respond = nearest_center(center, active)
        moments = gather(data, center.shape[0], chunk, respond, MEANS_ONLY, ())[0]
        return jnp.where((moments.mass > 0)[:, None], moments.mean, center), None

    return lax.scan(step, center, length=steps)[0]


def best_centers(
    key: Key[Array, ""],
    data: Data,
    active: Bool[Array, " k"],
    steps: int,
    chunk: int,
    candidates: int,
    starts: int,
) -> Float[Array, "k d"]:
    """Return centres after some Lloyd steps: of several starts, those of least inertia."""

    def start(key: Key[Array, ""]) -> Float[Array, "k d"]:
        num = active.shape[0]
        plain = candidates == 1
        center = (
            seed_centers(key, data, num, chunk)
            if plain
            else greedy_centers(key, data, num, chunk, candidates)
        )
        return lloyd(center, data, active, steps, chunk)

    if starts == 1:
        return start(key)

    def scored(key: Key[Array, ""]) -> tuple[Float[Array, "k d"], Float[Array, ""]]:
        center = start(key)
        respond = nearest_center(center, active)
        return center, -gather(data, active.shape[0], chunk, respond, MEANS_ONLY, ())[1]

    centers, inertia = lax.map(scored, jax.random.split(key, starts))
    return centers[jnp.argmin(inertia)]


MEANS_ONLY = Family(
    scatter=lambda x, share, mean, frame: (),
    scatter_of_point=lambda delta, weight, frame: (),
    estimate=lambda moments, frame, floor: ((), 0),
)
