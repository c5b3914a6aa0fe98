"""Centred moments of weighted points, summed chunk by chunk.

    N = N_a + N_b,    delta = mean_b - mean_a,    mean = mean_a + delta N_b / N
    S = S_a + S_b + delta delta^T N_a N_b / N

Each chunk is centred on its own means and two chunks are joined by the rule above (Chan, Golub and
LeVeque 1979). Every term is positive, so nothing cancels, however far the data lie from the origin.
The covariance type decides what S holds: a matrix, its diagonal, or a projection of it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

Scorer = Callable[[Float[Array, "n d"]], Float[Array, "k n"]]
# (points, their index) -> responsibilities [k n], and how well each point is explained [n]
Responsibility = Callable[[Array, Array], tuple[Array, Array]]


class Data(NamedTuple):
    """Points, read as (x - shift) / scale; rows of weight 0 are left out."""

    x: Float[Array, "n d"]
    weight: Float[Array, " n"]
    shift: Float[Array, " d"]
    scale: Float[Array, ""]

    def rows(self, index: Int[Array, " m"]) -> Float[Array, "m d"]:
        """Return some points, normalised."""
        return (self.x[index] - self.shift[None]) / self.scale

    def map_points(self, function: Callable[[Array], Array], chunk: int) -> Array:
        """Apply a function of normalised points; those that are not finite are read as zero."""

        def of_rows(rows: Float[Array, "m d"]) -> Array:
            local = jnp.where(jnp.isfinite(rows), rows - self.shift[None], 0.0)
            return function(local * (1.0 / self.scale))

        return map_rows(of_rows, self.x, chunk)


class Moments(NamedTuple):
    """Weight, mean and centred scatter of each component's points."""

    mass: Float[Array, " k"]
    mean: Float[Array, "k d"]
    scatter: Any


class Gathered(NamedTuple):
    """Moments of one pass over the data, the mean score, and each point's score and component."""

    moments: Moments
    score: Float[Array, ""]
    scores: Float[Array, " n"]
    label: Int[Array, " n"]


class Family(NamedTuple):
    """The functions that EM needs of a covariance type; see `covariances` and `low_rank`."""

    scatter: Callable  # (x, share, mean, frame) -> the scatter of all components
    scatter_of_point: Callable
    estimate: Callable
    frame: Callable = lambda covariance: ()
    start: Callable = lambda key, measure, num, dim, rank: ()
    each: Callable | None = None  # ((mean, frame) of one component, x, weight) -> its scatter


class Density(NamedTuple):
    """Log densities, one component at a time; `upper` is a bound that reads few columns."""

    parts: Any
    exact: Callable[[Any, Float[Array, "n d"]], Float[Array, " n"]]
    upper: Callable[[Any, Float[Array, "n d"]], Float[Array, " n"]]

    def scorer(self) -> Scorer:
        """Return the function that gives the log density of points under each component."""
        return lambda x: lax.map(lambda part: self.exact(part, x), self.parts)


def bound_width(dim: int) -> int:
    """Return how many columns the bound of the log density reads."""
    return min(dim, max(32, min(64, dim // 4)))


def by_component(each: Callable) -> Callable:
    """Return the scatter of all components, one after the other over all points."""

    def scatter(
        x: Float[Array, "n d"], share: Float[Array, "k n"], mean: Float[Array, "k d"], frame: Any
    ) -> Any:
        return lax.map(lambda args: each(args[0], x, args[1]), ((mean, frame), share))

    return scatter


def map_rows(
    function: Callable[[Array], Array], x: Float[Array, "n d"], chunk: int
) -> Float[Array, "*c n"]:
    """Apply a function of rows chunk by chunk, so that no second array of x's size exists.

    It gives a value for each row, or several in leading axes.
    """
    total, dim = x.shape
    chunk = even(total, max(1, chunk))

    def step(out, start):
        # The last chunk is moved back to end with the data; some rows are then computed twice.
        begin = jnp.minimum(start, total - chunk)
        value = function(lax.dynamic_slice(x, (begin, 0), (chunk, dim)))
        return lax.dynamic_update_slice(out, value, (*[0] * (out.ndim - 1), begin)), None

    shape = jax.eval_shape(function, x[:chunk])
    out = jnp.zeros((*shape.shape[:-1], total), shape.dtype)
    return lax.scan(step, out, jnp.arange(0, total, chunk))[0]


def largest(rows: Float[Array, "n d"]) -> Float[Array, " n"]:
    """Return the largest absolute entry of each row; infinity if one is NaN.

    NaN is tested separately, because XLA's maximum may ignore it on a CPU.
    """
    broken = jnp.any(jnp.isnan(rows), axis=1)
    return jnp.where(broken, jnp.inf, jnp.max(jnp.abs(rows), axis=1))


def chunk_size(dim: int) -> int:
    """Return the points per chunk: 32 MiB, but few enough for exact float32 sums."""
    return min(max(512, 2**23 // dim), 2**14)


def even(total: int, chunk: int) -> int:
    """Return the size of as many chunks of equal size, so that hardly any row is read twice."""
    return -(-total // -(-total // chunk))


def gather(
    data: Data, num: int, chunk: int, respond: Responsibility, family: Family, frame: Any
) -> Gathered:
    """Return moments under the responsibilities, and what else a pass gives."""
    total, dim = data.x.shape
    chunk = even(total, chunk)
    dtype = data.x.dtype

    def step(carry, start):
        moments, score, scores, label = carry
        # The last chunk is moved back to end with the data; rows seen before get weight 0.
        begin = jnp.minimum(start, total - chunk)
        index = begin + jnp.arange(chunk)
        weight = lax.dynamic_slice(data.weight, (begin,), (chunk,))
        fresh = jnp.where(index >= start, weight, 0.0)
        rows = lax.dynamic_slice(data.x, (begin, 0), (chunk, dim))
        rows = jnp.where((weight > 0)[:, None], rows - data.shift[None], 0.0) / data.scale
        share, explained = respond(rows, index)
        new = summarize(rows, share * fresh[None], family, frame)
        joined = join(moments, new, family, frame)
        part = jnp.sum(fresh) / jnp.maximum(jnp.sum(joined.mass), 1e-30)
        score = score + part * (mean(explained, fresh) - score)
        explained = jnp.where(weight > 0, explained, jnp.inf)
        scores = lax.dynamic_update_slice(scores, explained, (begin,))
        most = jnp.argmax(share, axis=0).astype(jnp.int32)
        label = lax.dynamic_update_slice(label, most, (begin,))
        return Gathered(joined, score, scores, label), None

    mean_zero = jnp.zeros((num, dim), dtype)
    empty = Moments(
        jnp.zeros(num, dtype),
        mean_zero,
        family.scatter_of_point(mean_zero, jnp.zeros(num, dtype), frame),
    )
    label = jnp.zeros(total, jnp.int32)
    carry = Gathered(empty, jnp.zeros((), dtype), jnp.zeros(total, dtype), label)
    return lax.scan(step, carry, jnp.arange(0, total, chunk))[0]


def summarize(
    x: Float[Array, "n d"], share: Float[Array, "k n"], family: Family, frame: Any
) -> Moments:
    """Return the moments of one chunk."""
    mass = jnp.sum(share, axis=1)
    first = jnp.matmul(share, x, precision=lax.Precision.HIGHEST)
    center = jnp.where((mass > 1e-30)[:, None], first / jnp.maximum(mass, 1e-30)[:, None], 0.0)
    return Moments(mass, center, family.scatter(x, share, center, frame))


def join(a: Moments, b: Moments, family: Family, frame: Any) -> Moments:
    """Return the moments of both sets of points together."""
    mass = a.mass + b.mass
    part = b.mass / jnp.maximum(mass, 1e-30)
    delta = b.mean - a.mean
    between = family.scatter_of_point(delta, a.mass * part, frame)
    scatter = jax.tree.map(lambda *parts: sum(parts), a.scatter, b.scatter, between)
    return Moments(mass, a.mean + delta * part[:, None], scatter)


def leave(whole: Moments, part: Moments, family: Family, frame: Any) -> Moments:
    """Return the moments of the points of the whole that are not in the part; `join` undone.

    This subtracts: variances below some 1e-7 of the whole's are rounding error.
    """
    mass = jnp.maximum(whole.mass - part.mass, 0.0)
    ratio = part.mass / jnp.maximum(mass, 1e-6)
    center = whole.mean + (whole.mean - part.mean) * ratio[:, None]
    weight = mass * part.mass / jnp.maximum(whole.mass, 1e-6)
    between = family.scatter_of_point(part.mean - center, weight, frame)
    scatter = jax.tree.map(lambda w, p, b: w - p - b, whole.scatter, part.scatter, between)
    return Moments(mass, center, scatter)


def mean(value: Float[Array, " n"], weight: Float[Array, " n"]) -> Float[Array, ""]:
    """Compute a weighted mean in two passes, so that a long float32 sum loses no digits."""
    total = jnp.maximum(jnp.sum(weight), 1e-30)
    rough = jnp.sum(value * weight) / total
    return rough + jnp.sum((value - rough) * weight) / total
