"""Maximum likelihood by expectation-maximisation (Dempster, Laird and Rubin 1977).

    r_nk = w_k N(x_n | mu_k, Sigma_k) / sum_j w_j N(x_n | mu_j, Sigma_j)        in log space
    w_k, mu_k, Sigma_k <- weight, mean and covariance of the points under r_.k

The data are read as (x - mean) / scale, with one scale for all columns, a power of two (exact),
so offsets and units do not matter; the covariance floor is relative to the trace of the data's
covariance. A component that holds less than a tenth of a point is dead: it is moved to the point
that the mixture explains worst, with the shape of the heaviest component and the weight of one
point.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from zsrl_jax.gmm import full
from zsrl_jax.gmm.mixture import Mixture
from zsrl_jax.gmm.moments import Data, Family, Moments, Responsibility, gather
from zsrl_jax.gmm.start import lloyd, nearest_center, seed_centers

DEAD = 0.1
FAMILIES = {
    "full": Family(full.frame, full.scatter, full.spread, full.estimate),
}


class Options(NamedTuple):
    """What is fixed when the program is compiled."""

    num_components: int
    num_iters: int
    covariance: str
    num_restarts: int
    rank: int
    lloyd_steps: int
    chunk: int


class Trace(NamedTuple):
    """How a fit went.

    `log_likelihood[i]` is the mean log-likelihood of a point after i iterations (0: the start);
    entries after the last iteration repeat its value, so `[-1]` is that of the returned mixture.
    """

    log_likelihood: Float[Array, "*s i"]
    iterations: Int[Array, "*s"]
    converged: Bool[Array, "*s"]
    jitters: Int[Array, "*s"]
    reseeds: Int[Array, "*s"]
    dropped: Int[Array, "*s"]


class State(NamedTuple):
    """What an iteration hands to the next."""

    mixture: Mixture
    moments: Moments
    scores: Float[Array, " n"]
    trace: Trace


def normalize(x: Float[Array, "n d"], weight: Float[Array, " n"]) -> tuple[Data, Float[Array, ""]]:
    """Return the data with mean zero and a variance between 1/2 and 2, and that variance."""
    usable = (weight > 0) & jnp.all(jnp.isfinite(x), axis=1)
    weight = jnp.where(usable, weight, 0.0)
    total = jnp.maximum(jnp.sum(weight), 1e-30)
    weight = weight * (jnp.sum(usable) / total)
    share = weight / jnp.maximum(jnp.sum(weight), 1e-30)
    origin = x[jnp.argmax(usable)]
    keep = usable[:, None]
    shift = origin + jnp.sum(jnp.where(keep, x - origin[None], 0.0) * share[:, None], axis=0)
    largest = jnp.max(jnp.where(keep, jnp.abs(x - shift[None]), 0.0))
    largest = jnp.where(largest > 0, largest, 1.0)
    square = jnp.where(keep, jnp.square((x - shift[None]) / largest), 0.0)
    rms = largest * jnp.sqrt(jnp.sum(jnp.mean(square, axis=1) * share))
    rms = jnp.where(rms > 0, rms, 1.0)
    scale = jnp.ldexp(jnp.ones((), x.dtype), jnp.round(jnp.log2(rms)).astype(jnp.int32))
    return Data(x, weight, shift, scale), jnp.square(rms / scale)


def run(
    key: Key[Array, ""],
    data: Data,
    floor: Float[Array, ""],
    active: Bool[Array, " k"],
    tolerance: Float[Array, ""],
    given: tuple[Array | None, Array | None],
    options: Options,
) -> tuple[Mixture, Trace]:
    """Fit one mixture to normalised data."""
    family = FAMILIES[options.covariance]
    respond = begin(key, data, active, given, options)
    state = initial(data, floor, active, respond, options)

    def unfinished(state: State):
        return (state.trace.iterations < options.num_iters) & ~state.trace.converged

    def iterate(state: State):
        return improve(state, data, floor, active, tolerance, family, options)

    state = lax.while_loop(unfinished, iterate, state)
    step = jnp.minimum(jnp.arange(options.num_iters + 1), state.trace.iterations)
    trace = state.trace._replace(log_likelihood=state.trace.log_likelihood[step])
    return state.mixture, trace


def begin(key, data: Data, active, given, options: Options) -> Responsibility:
    """Return the responsibilities of the first M step."""
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


def initial(data: Data, floor, active, respond: Responsibility, options: Options) -> State:
    """Return the state after the first M step."""
    family = FAMILIES[options.covariance]
    num, chunk = options.num_components, options.chunk
    moments, _, scores = gather(data, num, chunk, respond, family, ())
    zero = jnp.zeros((), jnp.int32)
    ll = jnp.full(options.num_iters + 1, -jnp.inf, data.x.dtype)
    trace = Trace(ll, zero, zero > 0, zero, zero, zero)
    mixture, trace = maximize(moments, scores, (), data, floor, active, trace, family)
    moments, score, scores = expect(mixture, data, family, chunk)
    trace = trace._replace(log_likelihood=ll.at[0].set(score))
    return State(mixture, moments, scores, trace)


def improve(
    state: State, data: Data, floor, active, tolerance, family: Family, options: Options
) -> State:
    """Do one iteration: the M step on the moments at hand, then the E step that gives the next."""
    mixture, trace = maximize(
        state.moments,
        state.scores,
        family.frame(state.mixture.covariance),
        data,
        floor,
        active,
        state.trace,
        family,
    )
    moments, score, scores = expect(mixture, data, family, options.chunk)
    gain = jnp.abs(score - trace.log_likelihood[trace.iterations])
    done = trace.iterations + 1
    trace = trace._replace(
        log_likelihood=trace.log_likelihood.at[done].set(score),
        iterations=done,
        converged=gain < tolerance,
    )
    return State(mixture, moments, scores, trace)


def expect(mixture: Mixture, data: Data, family: Family, chunk: int):
    """Return the moments under the mixture's responsibilities, the log-likelihood and its parts."""
    joint = mixture.joint()

    def respond(x: Float[Array, "n d"], index: Int[Array, " n"]):
        logit = joint(x)
        evidence = jax.nn.logsumexp(logit, axis=0)
        return jnp.exp(logit - evidence[None]), evidence

    frame = family.frame(mixture.covariance)
    return gather(data, mixture.means.shape[0], chunk, respond, family, frame)


def maximize(
    moments: Moments, scores, frame: Any, data: Data, floor, active, trace: Trace, family: Family
) -> tuple[Mixture, Trace]:
    """Return the mixture with these moments, its dead components planted anew."""
    covariance, jitters = family.estimate(moments, frame, floor)
    weight = jnp.where(active, moments.mass, 0.0)
    dead = active & (weight < DEAD)
    mixture = Mixture(weight, moments.mean, covariance)

    def plant(mixture: Mixture) -> Mixture:
        worst = lax.top_k(-scores, min(dead.shape[0], scores.shape[0]))[1]
        place = data.rows(worst[jnp.cumsum(dead) - 1])
        index = jnp.where(dead, jnp.argmax(weight), jnp.arange(dead.shape[0]))
        return Mixture(
            jnp.where(dead, 1.0, weight),
            jnp.where(dead[:, None], place, moments.mean),
            covariance.take(index),
        )

    mixture = lax.cond(jnp.any(dead), plant, lambda mixture: mixture, mixture)
    total = jnp.sum(mixture.log_weights)
    trace = trace._replace(
        jitters=trace.jitters + jitters, reseeds=trace.reseeds + jnp.sum(dead, dtype=jnp.int32)
    )
    return mixture._replace(log_weights=jnp.log(mixture.log_weights / total)), trace


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
    return mixture, trace._replace(log_likelihood=ll, dropped=dropped)


@jax.jit(static_argnames="options")
def fit_arrays(key, x, weight, active, tolerance, regularization, given, options: Options):
    """Fit mixtures from several starts and return the likeliest, with its trace."""
    data, variance = normalize(x, weight)
    floor = regularization * variance

    def once(key):
        return run(key, data, floor, active, tolerance, given, options)

    if options.num_restarts == 1:
        return restore(once(key), data)
    fits = lax.map(once, jax.random.split(key, options.num_restarts))
    best = jnp.argmax(fits[1].log_likelihood[:, -1])
    return restore(jax.tree.map(lambda leaf: leaf[best], fits), data)
