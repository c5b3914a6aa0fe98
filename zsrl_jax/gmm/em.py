"""Maximum likelihood by expectation-maximisation (Dempster, Laird and Rubin 1977).

    r_nk = w_k N(x_n | mu_k, Sigma_k) / sum_j w_j N(x_n | mu_j, Sigma_j)        in log space
    w_k, mu_k, Sigma_k <- weight, mean and covariance of the points under r_.k

The data are read as (x - mean) / scale, with one scale for all columns, a power of two (exact),
so offsets and units do not matter. The covariance floor is relative to the trace of the data's
covariance. A component that holds less than a tenth of a point is dead: it is moved to the point
that the mixture explains worst, with the shape of the heaviest component and the weight of one
point.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from zsrl_jax.gmm.covariances import DIAG, FULL, SPHERICAL, TIED
from zsrl_jax.gmm.low_rank import LOW_RANK
from zsrl_jax.gmm.mixture import Mixture
from zsrl_jax.gmm.moments import Data, Family, Moments, Responsibility, gather
from zsrl_jax.gmm.pruning import joint_of_few, negligible, of_few


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Trace:
    """The mean log-likelihood of a point after 0 (the start), 1, 2, ... iterations, as an array.

    Entries after the last iteration repeat its value, so `trace[-1]` is that of the returned
    mixture. Rounding can lower the likelihood when a covariance is singular except for the floor:
    then the best mixture so far and its value are kept. `falls` counts such iterations; `lost` is
    the largest loss of one of them.
    """

    log_likelihood: Float[Array, "*s i"]
    iterations: Int[Array, "*s"]
    converged: Bool[Array, "*s"]
    jitters: Int[Array, "*s"]
    reseeds: Int[Array, "*s"]
    falls: Int[Array, "*s"]
    lost: Float[Array, "*s"]
    dropped: Int[Array, "*s"]

    def replace(self, **changes: Any) -> "Trace":
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        """Give the log-likelihoods to numpy."""
        return np.asarray(self.log_likelihood, dtype)

    def __jax_array__(self) -> Array:
        """Give the log-likelihoods to JAX."""
        return self.log_likelihood

    def __getitem__(self, index: Any) -> Array:
        """Return the log-likelihood at an iteration, or at several."""
        return self.log_likelihood[index]

    def __len__(self) -> int:
        """Count the entries: one more than the iterations allowed."""
        return self.log_likelihood.shape[-1]


DEAD = 0.1
ROUNDING = 1e-6
FAMILIES = {
    "full": FULL,
    "diag": DIAG,
    "spherical": SPHERICAL,
    "tied": TIED,
    "low_rank": LOW_RANK,
}


class Options(NamedTuple):
    """Constants of the compiled program."""

    num_components: int
    num_iters: int
    covariance: str
    num_restarts: int
    rank: int
    lloyd_steps: int
    chunk: int
    skip: bool  # skip pairs that cannot matter: faster on a CPU
    candidates: int = 1  # for each seed; 1: plain k-means++
    starts: int = 1  # of which the best goes on
    moves: int = 0  # rounds of splits and merges at most, before EM and between its runs
    together: bool = False  # restarts in one batch: faster on an accelerator

    @property
    def family(self) -> Family:
        """Return the functions of the covariance type."""
        family = FAMILIES[self.covariance]
        return of_few(family) if self.skip else family


class State(NamedTuple):
    """What an iteration passes to the next, including the moments for its M step."""

    best: Mixture
    last: Float[Array, ""]
    moments: Moments
    frame: Any
    scores: Float[Array, " n"]
    label: Int[Array, " n"]  # of the component most responsible
    trace: Trace


class Problem(NamedTuple):
    """What stays the same in all iterations."""

    data: Data
    floor: Float[Array, ""]
    active: Bool[Array, " k"]
    tolerance: Float[Array, ""]


def initial(
    key: Key[Array, ""], problem: Problem, respond: Responsibility, options: Options
) -> State:
    """Return the state before the first M step; its best mixture is a blank."""
    family = options.family
    num, dim = options.num_components, problem.data.x.shape[1]

    def measure(frame):
        return gather(problem.data, num, options.chunk, respond, family, frame)

    frame = family.start(key, lambda frame: measure(frame)[0], num, dim, options.rank)
    moments, _, scores, label = measure(frame)
    zero = jnp.zeros((), jnp.int32)
    blank = jnp.zeros(options.num_iters + 1, problem.data.x.dtype)
    # The first pass of the loop only computes the start: iterations count from -1.
    trace = Trace(blank, zero - 1, zero > 0, zero, zero, zero, blank[0], zero)
    shape = jax.eval_shape(family.estimate, moments, frame, problem.floor)[0]
    covariance = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shape)
    mixture = Mixture(jnp.zeros_like(moments.mass), jnp.zeros_like(moments.mean), covariance)
    return State(mixture, blank[0], moments, frame, scores, label, trace)


def iterate(state: State, problem: Problem, options: Options) -> State:
    """Do one iteration: the M step on the moments, then the E step that gives the next moments."""
    family = options.family
    mixture, jitters, reseeds = maximize(state, problem, family)
    frame = family.frame(mixture.covariance)
    margin = negligible(problem.data.x.shape[0], DEAD)
    joint = joint_of_few(mixture, margin) if options.skip else mixture.joint()

    def respond(x: Float[Array, "n d"], index: Int[Array, " n"]):
        logit = joint(x)
        evidence = jax.nn.logsumexp(logit, axis=0)
        return jnp.exp(logit - evidence[None]), evidence

    num, dim = mixture.means.shape
    moments, score, scores, label = gather(problem.data, num, options.chunk, respond, family, frame)
    trace = state.trace
    done = trace.iterations + 1
    highest = trace.log_likelihood[trace.iterations]
    better = (done == 0) | (score >= highest)
    slack = ROUNDING * (jnp.abs(state.last) + dim)
    loss = jnp.where((done > 0) & (reseeds == 0), state.last - score, 0.0)
    trace = trace.replace(
        log_likelihood=trace.log_likelihood.at[done].set(jnp.where(better, score, highest)),
        iterations=done,
        converged=(done > 0) & (jnp.abs(score - state.last) < problem.tolerance),
        jitters=trace.jitters + jitters,
        reseeds=trace.reseeds + reseeds,
        falls=trace.falls + (loss > slack),
        lost=jnp.maximum(trace.lost, loss),
    )
    best = jax.tree.map(lambda new, old: jnp.where(better, new, old), mixture, state.best)
    return State(best, score, moments, frame, scores, label, trace)


def maximize(
    state: State, problem: Problem, family: Family
) -> tuple[Mixture, Int[Array, ""], Int[Array, ""]]:
    """Return the mixture of these moments, with dead components moved, and both counts."""
    moments = state.moments
    covariance, jitters = family.estimate(moments, state.frame, problem.floor)
    mass = jnp.where(problem.active, moments.mass, 0.0)
    dead = problem.active & (mass < DEAD)

    def plant(mass, means, covariance):
        worst = lax.top_k(-state.scores, min(dead.shape[0], state.scores.shape[0]))[1]
        place = problem.data.rows(worst[jnp.cumsum(dead) - 1])
        index = jnp.where(dead, jnp.argmax(mass), jnp.arange(dead.shape[0]))
        means = jnp.where(dead[:, None], place, means)
        return jnp.where(dead, 1.0, mass), means, covariance.take(index)

    parts = mass, moments.mean, covariance
    mass, means, covariance = lax.cond(jnp.any(dead), plant, lambda *parts: parts, *parts)
    log_weights = jnp.log(mass / jnp.sum(mass))
    reseeds = jnp.sum(dead, dtype=jnp.int32)
    return Mixture(log_weights, means, covariance), jitters, reseeds
