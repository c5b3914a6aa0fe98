"""What a fit needs of its input; what is missing is one line.

x [N, d] finite, N >= K, not one point repeated; weights [N] >= 0, at least K of them positive
"""

import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zsrl_jax.errors import DataError, unknown
from zsrl_jax.gmm.moments import chunk_size, largest, map_rows

SMALLEST, LARGEST = 1e-18, 1e18


def check_choices(covariance: str, known: Iterable[str]) -> None:
    """Raise unless the covariance type exists."""
    if covariance not in known:
        raise DataError(f"gmm.fit: {unknown('covariance type', covariance, known)}")


def check_least(name: str, value: Any, least: int) -> None:
    """Raise if a number is below its minimum."""
    if not isinstance(value, jax.core.Tracer) and not value >= least:
        raise DataError(f"gmm.fit: {name} must be at least {least}, found {value}")


def check_whole(name: str, value: Any) -> None:
    """Raise unless a number is a whole one."""
    if not isinstance(value, jax.core.Tracer) and value != int(value):
        raise DataError(f"gmm.fit: {name} must be a whole number, found {value}")


def check_regularization(value: float) -> None:
    """Raise unless the floor of variances is positive and finite: without it a fit can be NaN."""
    if not isinstance(value, jax.core.Tracer) and not 0 < value < math.inf:
        raise DataError(f"gmm.fit: regularization must be positive, found {value}")


def is_traced(*arrays: Any) -> bool:
    """Tell whether values are unknown: under jit, also those of an array made outside of it."""
    return any(isinstance(a[:1] + 0, jax.core.Tracer) for a in arrays if a is not None)


def check_shapes(
    x: Array, num_components: int, weights: Any, means: Any, responsibilities: Any
) -> None:
    """Raise unless all arrays fit together; shapes are known under jit too."""
    if x.ndim != 2 or x.shape[1] == 0:
        raise DataError(
            f"gmm.fit: x must have shape [points, dimensions], found {list(x.shape)}; "
            "one dimension is x[:, None]"
        )
    total, dim = x.shape
    if total < num_components:
        raise DataError(
            f"gmm.fit: {num_components} components need at least as many points, found {total}; "
            "use fewer components or more points"
        )
    if means is not None and responsibilities is not None:
        raise DataError("gmm.fit: give means or responsibilities to start from, not both")
    expected = {
        "weights": (weights, (total,)),
        "means": (means, (num_components, dim)),
        "responsibilities": (responsibilities, (total, num_components)),
    }
    for name, (array, shape) in expected.items():
        if array is not None and array.shape != shape:
            raise DataError(
                f"gmm.fit: {name} must have shape {list(shape)}, found {list(array.shape)}"
            )


def check_values(
    x: Array, num_components: int, weights: Any, means: Any, responsibilities: Any
) -> None:
    """Raise if no fit exists; values are known only outside jit and vmap."""
    check_finite("x", x)
    for name, array in (("means", means), ("responsibilities", responsibilities)):
        if array is not None:
            check_finite(name, array)
    if responsibilities is not None and bool(jnp.any(responsibilities < 0)):
        raise DataError("gmm.fit: responsibilities must not be negative")
    if weights is not None:
        check_finite("weights", weights[:, None])
        positive = int(jnp.sum(weights > 0))
        if bool(jnp.any(weights < 0)) or positive < num_components:
            raise DataError(
                f"gmm.fit: weights must not be negative and at least {num_components} (one "
                f"per component) must be positive, found {positive}"
            )
        if float(jnp.max(weights)) > LARGEST:
            raise DataError(
                f"gmm.fit: weights go up to {float(jnp.max(weights)):.1g}: expected at most "
                f"{LARGEST:g}; only their ratios matter, so rescale them"
            )
    used = jnp.ones(x.shape[0], bool) if weights is None else weights > 0
    origin = x[jnp.argmax(used)]
    extent = float(jnp.max(jnp.where(used, row_sizes(x, origin), 0.0)))
    if extent == 0:
        raise DataError(
            f"gmm.fit: all {x.shape[0]} points of x are equal, so the likelihood has no maximum; "
            "check how x was made"
        )
    if not SMALLEST < extent < LARGEST:
        raise DataError(
            f"gmm.fit: x extends over {extent:.1g}, outside {SMALLEST:g} to {LARGEST:g}, where "
            "squares leave float32; rescale x"
        )


def check_finite(name: str, array: Array) -> None:
    """Raise if a row holds NaN or infinity."""
    good = jnp.isfinite(row_sizes(array, jnp.zeros(array.shape[1], array.dtype)))
    if not bool(jnp.all(good)):
        raise DataError(
            f"gmm.fit: {name} has {int(jnp.sum(~good))} of {array.shape[0]} rows with NaN or "
            f"infinity, the first is row {int(jnp.argmin(good))}; remove or repair them"
        )


@jax.jit
def row_sizes(x: Float[Array, "n d"], origin: Float[Array, " d"]) -> Float[Array, " n"]:
    """Return the largest distance from the origin in any column; not finite if an entry is not."""

    def size(rows: Float[Array, "m d"]) -> Float[Array, " m"]:
        return largest(rows - origin[None])

    return map_rows(size, x, chunk_size(x.shape[1]))
