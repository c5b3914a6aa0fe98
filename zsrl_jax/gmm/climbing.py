"""One fit: a start, EM to its end, and moves between runs of EM.

    start -> EM -> move -> EM -> ... while the likelihood rises

A move (`moves`) is looked for on the labels of the last E step. If one promises a gain, EM goes on
from the labels after it. What is returned is the best mixture of all runs.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from zsrl_jax.gmm.em import Options, Problem, State, Trace, initial, iterate
from zsrl_jax.gmm.mixture import Mixture
from zsrl_jax.gmm.moments import Responsibility, gather
from zsrl_jax.gmm.moves import Proposal, Search, by_label, improve, propose, searcher
from zsrl_jax.gmm.start import best_centers, nearest_center, nearest_label

SETTLED = 0.01  # share of points whose component may change before moves are tried again
LEAST_GAIN = 1e-4  # nats per point that a round of moves must promise: more than rounding


def run(
    key: Key[Array, ""],
    problem: Problem,
    given: tuple[Array | None, Array | None],
    options: Options,
) -> tuple[Mixture, Trace]:
    """Fit one mixture to normalised data."""
    key_center, key_frame = jax.random.split(key)
    respond, settled = begin(key_center, problem, given, options)
    state = initial(key_frame, problem, respond, options)

    def unfinished(state: State) -> Bool[Array, ""]:
        return (state.trace.iterations < options.num_iters) & ~state.trace.converged

    def climb(state: State) -> State:
        return lax.while_loop(unfinished, lambda state: iterate(state, problem, options), state)

    state = move(climb, state, settled, problem, options) if options.moves else climb(state)
    step = jnp.minimum(jnp.arange(options.num_iters + 1), state.trace.iterations)
    trace = state.trace.replace(log_likelihood=state.trace.log_likelihood[step])
    return state.best, trace


def move(
    climb: Callable[[State], State],
    state: State,
    settled: Bool[Array, ""],
    problem: Problem,
    options: Options,
) -> State:
    """Run EM to its end; move components and run it again, as long as the likelihood rises.

    `settled` tells that no move of the first labels gains: then none is looked for, if EM hardly
    changes them.
    What a move loses is never returned: the state keeps its best mixture, and the trace its value.
    """
    search = search_of(problem, options)
    first = jnp.where(settled, state.label, -1)

    def step(carry):
        state, done, before, _ = carry
        state = climb(state)
        highest = state.trace.log_likelihood[state.trace.iterations]
        room = (done < options.moves) & (state.trace.iterations < options.num_iters)
        changed = jnp.mean(state.label != first) > SETTLED
        promising = room & changed & (highest > before + problem.tolerance)

        def skip(label: Int[Array, " n"]) -> Proposal:
            none = jnp.zeros((), highest.dtype)
            return Proposal(label, none, none)

        found = lax.cond(promising, lambda label: propose(label, search), skip, state.label)
        go = found.gain > jnp.maximum(problem.tolerance, LEAST_GAIN)
        state = lax.cond(go, lambda: moved(state, found.label, problem, options), lambda: state)
        return state, done + 1, highest, go

    lowest = jnp.full((), -jnp.inf, problem.data.x.dtype)
    carry = state, jnp.zeros((), jnp.int32), lowest, jnp.ones((), bool)
    return lax.while_loop(lambda carry: carry[-1], step, carry)[0]


def moved(state: State, label: Int[Array, " n"], problem: Problem, options: Options) -> State:
    """Return the state from which EM goes on with these labels."""
    respond = by_label(label, options.num_components)
    moments, _, scores, label = gather(
        problem.data, options.num_components, options.chunk, respond, options.family, state.frame
    )
    trace = state.trace.replace(converged=jnp.zeros((), bool))
    # Minus infinity: the next iteration is no fall, whatever it gives.
    last = jnp.full_like(state.last, -jnp.inf)
    return state._replace(last=last, moments=moments, scores=scores, label=label, trace=trace)


def search_of(problem: Problem, options: Options) -> Search:
    """Return the search for moves."""
    return searcher(
        problem.data, problem.floor, problem.active, options.covariance, options.skip, options.chunk
    )


def begin(
    key: Key[Array, ""],
    problem: Problem,
    given: tuple[Array | None, Array | None],
    options: Options,
) -> tuple[Responsibility, Bool[Array, ""]]:
    """Return the responsibilities of the first M step, and whether no move of them gains."""
    data, _, active, _ = problem
    means, responsibilities = given
    unknown = jnp.zeros((), bool)
    if responsibilities is not None:

        def respond(x: Float[Array, "n d"], index: Int[Array, " n"]) -> tuple[Array, Array]:
            share = lax.dynamic_slice_in_dim(responsibilities, index[0], index.shape[0]).T
            return jnp.where(active[:, None], share, 0.0), jnp.zeros(x.shape[0], x.dtype)

        return respond, unknown
    if means is not None:
        return nearest_center((means - data.shift[None]) / data.scale, active), unknown
    center = best_centers(
        key, data, active, options.lloyd_steps, options.chunk, options.candidates, options.starts
    )
    if not options.moves:
        return nearest_center(center, active), unknown
    label = nearest_label(center, data, active, options.chunk)
    least = jnp.maximum(problem.tolerance, LEAST_GAIN)
    label, settled = improve(label, search_of(problem, options), options.moves, least)
    return by_label(label, options.num_components), settled
