"""`gmm.fit`: check the input, fill in defaults, run the compiled fit.

    gmm.fit(key, x, num_components) -> argmax over mixtures of sum_n w_n log p(x_n)

Under jit or vmap values are unknown: only shapes and names are checked, and rows that are not
finite are left out and counted in `Trace.dropped`.

The compiled program normalises the data, starts, iterates until convergence and returns the best of
the starts. Restarts run in parallel on an accelerator. On a CPU they run one after the other,
because there each may skip pairs that cannot matter.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from zsrl_jax.devices.precision import backend
from zsrl_jax.gmm.checks import (
    check_choices,
    check_least,
    check_regularization,
    check_shapes,
    check_values,
    check_whole,
    is_traced,
)
from zsrl_jax.gmm.climbing import run
from zsrl_jax.gmm.em import FAMILIES, Options, Problem, Trace
from zsrl_jax.gmm.mixture import Mixture
from zsrl_jax.gmm.moments import Data, chunk_size
from zsrl_jax.gmm.moves import MOVABLE
from zsrl_jax.gmm.pruning import pays
from zsrl_jax.gmm.start import normalize

MOVES = 10


def restore(fitted: tuple[Mixture, Trace], data: Data) -> tuple[Mixture, Trace]:
    """Return a fit to normalised data in the units of the data."""
    mixture, trace = fitted
    dim = data.x.shape[1]
    mixture = Mixture(
        mixture.log_weights,
        mixture.means * data.scale + data.shift[None],
        mixture.covariance.scaled(data.scale),
    )
    ll = trace.log_likelihood - dim * jnp.log(data.scale)
    dropped = jnp.sum(data.weight <= 0, dtype=jnp.int32)
    return mixture, trace.replace(log_likelihood=ll, dropped=dropped)


@jax.jit(static_argnames="options")
def fit_arrays(
    key: Key[Array, ""],
    x: Float[Array, "n d"],
    weight: Float[Array, " n"],
    active: Bool[Array, " k"],
    tolerance: Any,
    regularization: Any,
    given: tuple[Array | None, Array | None],
    options: Options,
) -> tuple[Mixture, Trace]:
    """Fit mixtures from several starts and return the likeliest, with its trace."""
    data, variance = normalize(x, weight, options.chunk)
    problem = Problem(data, regularization * variance, active, tolerance)

    def once(key: Key[Array, ""]) -> tuple[Mixture, Trace]:
        return run(key, problem, given, options)

    if options.num_restarts == 1:
        return restore(once(key), data)
    keys = jax.random.split(key, options.num_restarts)
    fits = jax.vmap(once)(keys) if options.together else lax.map(once, keys)
    best = jnp.argmax(fits[1].log_likelihood[:, -1])
    return restore(jax.tree.map(lambda leaf: leaf[best], fits), data)


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
    candidates: int | None = None,
    starts: int = 1,
    moves: int | None = None,
) -> tuple[Mixture, Trace]:
    """Fit a mixture by EM; `tolerance=0` runs exactly `num_iters` iterations.

    `skip` skips pairs of point and component that cannot matter; the default is true on a CPU.
    `candidates` are drawn for each seed (default 2 + log K; 1: plain k-means++); of `starts` the
    best goes on; up to `moves` rounds split and merge components (default 10; 0 if the start is
    given, or with fewer than three components, or for types that have no moves: tied, low_rank).
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
        ("candidates", 1 if candidates is None else candidates, 1),
        ("starts", starts, 1),
        ("moves", 0 if moves is None else moves, 0),
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
    movable = covariance in MOVABLE and num_components > 2
    default = MOVES if means is None and responsibilities is None else 0
    rounds = (default if moves is None else moves) if movable else 0
    options = Options(
        num_components,
        num_iters,
        covariance,
        num_restarts,
        min(rank, x.shape[1]) if covariance == "low_rank" else 0,
        lloyd_steps,
        chunk or chunk_size(x.shape[1]),
        pays(FAMILIES[covariance], x.shape[1]) if skip is None else skip,
        2 + int(math.log(num_components)) if candidates is None else candidates,
        starts,
        rounds,
        backend() != "cpu",
    )
    active = jnp.arange(num_components) < (num_components if num_active is None else num_active)
    weights = jnp.ones(x.shape[0], x.dtype) if weights is None else weights
    given = (means, responsibilities)
    args = key, x, weights, active, tolerance, regularization, given
    fitted: tuple[Mixture, Trace] = fit_arrays(*args, options)
    return fitted
