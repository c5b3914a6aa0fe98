"""The compiled fit: normalise, start, iterate until nothing changes, take the best of the starts.

    fit_arrays(key, x, weight, active, tolerance, regularization, given, options) -> Mixture, Trace

Restarts run one after the other on a CPU, where the fit of each may leave out what cannot matter,
and side by side on an accelerator.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from zsrl_jax.gmm.em import Options, Problem, State, initial, iterate
from zsrl_jax.gmm.mixture import Mixture
from zsrl_jax.gmm.moments import Data, Responsibility
from zsrl_jax.gmm.start import lloyd, nearest_center, normalize, seed_centers
from zsrl_jax.gmm.trace import Trace


def run(
    key: Key[Array, ""],
    problem: Problem,
    given: tuple[Array | None, Array | None],
    options: Options,
) -> tuple[Mixture, Trace]:
    """Fit one mixture to normalised data."""
    key_center, key_frame = jax.random.split(key)
    respond = begin(key_center, problem, given, options)
    state = initial(key_frame, problem, respond, options)

    def unfinished(state: State) -> Bool[Array, ""]:
        return (state.trace.iterations < options.num_iters) & ~state.trace.converged

    state = lax.while_loop(unfinished, lambda state: iterate(state, problem, options), state)
    step = jnp.minimum(jnp.arange(options.num_iters + 1), state.trace.iterations)
    trace = state.trace.replace(log_likelihood=state.trace.log_likelihood[step])
    return state.best, trace


def begin(
    key: Key[Array, ""],
    problem: Problem,
    given: tuple[Array | None, Array | None],
    options: Options,
) -> Responsibility:
    """Return the responsibilities of the first M step."""
    data, _, active, _ = problem
    means, responsibilities = given
    if responsibilities is not None:

        def respond(x: Float[Array, "n d"], index: Int[Array, " n"]):
            share = lax.dynamic_slice_in_dim(responsibilities, index[0], index.shape[0]).T
            return jnp.where(active[:, None], share, 0.0), jnp.zeros(x.shape[0], x.dtype)

        return respond
    if means is not None:
        return nearest_center((means - data.shift[None]) / data.scale, active)
    center = seed_centers(key, data, options.num_components, options.chunk)
    center = lloyd(center, data, active, options.lloyd_steps, options.chunk)
    return nearest_center(center, active)


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
def fit_arrays(key, x, weight, active, tolerance, regularization, given, options: Options):
    """Fit mixtures from several starts and return the likeliest, with its trace."""
    data, variance = normalize(x, weight, options.chunk)
    problem = Problem(data, regularization * variance, active, tolerance)

    def once(key):
        return run(key, problem, given, options)

    if options.num_restarts == 1:
        return restore(once(key), data)
    keys = jax.random.split(key, options.num_restarts)
    fits = lax.map(once, keys) if jax.default_backend() == "cpu" else jax.vmap(once)(keys)
    best = jnp.argmax(fits[1].log_likelihood[:, -1])
    return restore(jax.tree.map(lambda leaf: leaf[best], fits), data)
