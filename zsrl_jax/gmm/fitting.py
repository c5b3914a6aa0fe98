"""The front door of the mixture: check what can be checked, fill in defaults, run the compiled fit.

    gmm.fit(key, x, num_components) -> argmax over mixtures of sum_n w_n log p(x_n)

Under jit or vmap values cannot be looked at: then only shapes and names are checked, rows that are
not finite are left out and counted in `Trace.dropped`.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.gmm.check import (
    check_choices,
    check_least,
    check_regularization,
    check_shapes,
    check_values,
    check_whole,
    is_traced,
)
from zsrl_jax.gmm.em import FAMILIES, Options
from zsrl_jax.gmm.listed import pays
from zsrl_jax.gmm.mixture import Mixture
from zsrl_jax.gmm.moments import chunk_size
from zsrl_jax.gmm.program import fit_arrays
from zsrl_jax.gmm.trace import Trace


def fit(
    key: Key[Array, ""],
    x: Float[Array, "n d"],
    num_components: int,
    num_iters: int = 100,
    tolerance: float = 1e-3,
    covariance: str = "full",
    num_restarts: int = 1,
    *,
    weights: Float[Array, " n"] | None = None,
    means: Float[Array, "k d"] | None = None,
    responsibilities: Float[Array, "n k"] | None = None,
    num_active: int | Int[Array, ""] | None = None,
    rank: int = 10,
    regularization: float = 1e-6,
    lloyd_steps: int = 5,
    chunk: int | None = None,
    skip: bool | None = None,
) -> tuple[Mixture, Trace]:
    """Fit a mixture by EM; `tolerance=0` runs exactly `num_iters` iterations.

    `skip` leaves out pairs of point and component that cannot matter; by default on a CPU.
    """
    check_choices(covariance, FAMILIES)
    for name, value, least in (
        ("num_components", num_components, 1),
        ("num_restarts", num_restarts, 1),
        ("rank", rank, 1),
        ("num_iters", num_iters, 0),
        ("tolerance", tolerance, 0),
        ("num_active", 1 if num_active is None else num_active, 1),
        ("chunk", 1 if chunk is None else chunk, 1),
    ):
        check_least(name, value, least)
    check_whole("num_components", num_components)
    check_regularization(regularization)
    x = jnp.asarray(x, jnp.result_type(float))
    weights, means, responsibilities = (
        None if array is None else jnp.asarray(array, x.dtype)
        for array in (weights, means, responsibilities)
    )
    arrays = x, num_components, weights, means, responsibilities
    check_shapes(*arrays)
    if not is_traced(x, weights, means, responsibilities):
        check_values(*arrays)
    options = Options(
        num_components,
        num_iters,
        covariance,
        num_restarts,
        min(rank, x.shape[1]) if covariance == "low_rank" else 0,
        lloyd_steps,
        chunk or chunk_size(x.shape[1]),
        pays(FAMILIES[covariance], x.shape[1]) if skip is None else skip,
    )
    active = jnp.arange(num_components) < (num_components if num_active is None else num_active)
    weights = jnp.ones(x.shape[0], x.dtype) if weights is None else weights
    given = (means, responsibilities)
    return fit_arrays(key, x, weights, active, tolerance, regularization, given, options)
