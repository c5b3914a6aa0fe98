"""Skip pairs of a point and a component that cannot matter, without a change of shape.

    r_nk < 2^-24 DEAD / N  for all that are skipped, so no living component loses a bit of its mass

Task vectors have many dimensions, where nearly every point belongs to one component; but plain EM
computes all N K pairs. Here the indices of the points that a component needs are the first `count`
entries of an array of static length, and are taken tile by tile. Loops over tiles end at the count,
so other points cost nothing on a CPU. A component that needs most points takes all in one product.

Which pairs matter is known before they are computed: the first b columns of L^-1 (x - mu) give the
distance in the marginal of the first b columns, which is at most the whole distance, so

    log w_k + log N(x | mu_k, Sigma_k) <= log w_k + c_k - 1/2 |first b columns|^2 = upper_k.

The component with the highest bound is computed exactly, then all those that may come near it.
Under vmap every branch is computed: the result is right, but slower than plain EM.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from zsrl_jax.devices.precision import backend
from zsrl_jax.gmm.mixture import Mixture
from zsrl_jax.gmm.moments import Density, Family, Scorer

TILE = 256
MOST = 0.6  # of all points: above this, one large product is faster than tiles
SMALLEST_DIM = 40  # below this, the bound would read nearly all columns


def pays(family: Family, dim: int) -> bool:
    """Tell whether to skip pairs: on a CPU, for types whose cost is in the pairs."""
    return family.each is not None and dim >= SMALLEST_DIM and backend() == "cpu"


def negligible(total: int, dead: float) -> float:
    """Return the margin: a component whose log density is that far below the best is skipped."""
    return math.log(total / dead) + 24 * math.log(2)


def tiles(needed: Bool[Array, " n"], body: Callable[[Any, Array, Array], Any], carry: Any) -> Any:
    """Call body(carry, index, valid) for every tile of the points that are needed."""
    total = needed.shape[0]
    size = min(TILE, total)
    place = jnp.cumsum(needed, dtype=jnp.int32) - 1
    index = jnp.zeros(total + size, jnp.int32)
    # Points that are not needed get an index outside the array, and so are not written.
    slot = jnp.where(needed, place, total + size)
    index = index.at[slot].set(jnp.arange(total, dtype=jnp.int32), mode="drop")
    count = place[-1] + 1

    def step(state):
        begin, carry = state
        part = lax.dynamic_slice(index, (begin,), (size,))
        return begin + size, body(carry, part, begin + jnp.arange(size) < count)

    begin = jnp.zeros((), jnp.int32)
    return lax.while_loop(lambda state: state[0] < count, step, (begin, carry))[1]


def choose(needed: Bool[Array, " n"], none: Callable, some: Callable, every: Callable) -> Any:
    """Call one of three functions, by how many points are needed."""
    count = jnp.sum(needed, dtype=jnp.int32)
    branch = (count > 0).astype(jnp.int32) + (count > MOST * needed.shape[0])
    return lax.switch(branch, (none, some, every))


def evaluate(
    density: Density, x: Float[Array, "n d"], needed: Bool[Array, "k n"]
) -> Float[Array, "k n"]:
    """Compute the log densities that are needed; the others are minus infinity."""
    nothing = jnp.full(x.shape[0], -jnp.inf, x.dtype)

    def component(args):
        part, needed = args

        def tile(out, index, valid):
            value = jnp.where(valid, density.exact(part, x[index]), -jnp.inf)
            return out.at[index].max(value)

        def every():
            return jnp.where(needed, density.exact(part, x), -jnp.inf)

        return choose(needed, lambda: nothing, lambda: tiles(needed, tile, nothing), every)

    return lax.map(component, (density.parts, needed))


def joint_of_few(mixture: Mixture, margin: float) -> Scorer:
    """Return the function that gives log w_k + log N(x | ...), or -inf where it cannot matter."""
    density = mixture.covariance.density(mixture.means)
    offset = mixture.log_weights[:, None]

    def score(x: Float[Array, "n d"]) -> Float[Array, "k n"]:
        upper = offset + lax.map(lambda part: density.upper(part, x), density.parts)
        likely = jnp.argmax(upper, axis=0)[None] == jnp.arange(upper.shape[0])[:, None]
        joint = offset + evaluate(density, x, likely)
        # >=: far from every component rounding swallows the margin, and the best must stay
        near = upper >= jnp.max(joint, axis=0)[None] - margin
        joint = jnp.maximum(joint, offset + evaluate(density, x, near & ~likely))
        return jnp.where(joint >= jnp.max(joint, axis=0)[None] - margin, joint, -jnp.inf)

    return score


def of_few(family: Family) -> Family:
    """Return the family with a scatter that takes only points of positive weight."""
    each = family.each
    if each is None:
        return family

    def scatter(
        x: Float[Array, "n d"], share: Float[Array, "k n"], mean: Float[Array, "k d"], frame: Any
    ) -> Any:
        return lax.map(lambda args: sum_few(each, x, *args), ((mean, frame), share))

    return family._replace(scatter=scatter)


def sum_few(each: Callable, x: Float[Array, "n d"], part: Any, weight: Float[Array, " n"]) -> Any:
    """Sum the scatter of one component over the points of positive weight."""
    empty = each(part, jnp.zeros_like(x[:1]), jnp.zeros_like(weight[:1]))

    def tile(total, index, valid):
        new = each(part, x[index], jnp.where(valid, weight[index], 0.0))
        return jax.tree.map(jnp.add, total, new)

    return choose(
        weight > 0,
        lambda: empty,
        lambda: tiles(weight > 0, tile, empty),
        lambda: each(part, x, weight),
    )
