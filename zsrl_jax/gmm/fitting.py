"""The front door of the mixture: check what can be checked, fill in defaults, run the compiled fit.

    gmm.fit(key, x, num_components) -> argmax over mixtures of sum_n w_n log p(x_n)

Under jit or vmap values cannot be looked at: then only shapes and names are checked, rows that are
not finite are left out and counted in `Trace.dropped`.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.gmm.em import Options, Trace, fit_arrays
from zsrl_jax.gmm.mixture import Mixture, chunk_size


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
) -> tuple[Mixture, Trace]:
    """Fit a mixture by EM; `tolerance=0` runs exactly `num_iters` iterations."""
    x = jnp.asarray(x, jnp.result_type(float))
    weights = jnp.ones(x.shape[0], x.dtype) if weights is None else jnp.asarray(weights, x.dtype)
    active = jnp.arange(num_components) < (num_components if num_active is None else num_active)
    options = Options(
        num_components,
        num_iters,
        covariance,
        num_restarts,
        min(rank, x.shape[1]),
        lloyd_steps,
        chunk or chunk_size(x.shape[1]),
    )
    given = (means, responsibilities)
    return fit_arrays(key, x, weights, active, tolerance, regularization, given, options)
