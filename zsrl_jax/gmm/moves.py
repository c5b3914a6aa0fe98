"""Moves out of a poor optimum: split a component and merge two others (Ueda and others, 2000).

    log p(data) >= F = sum_k V_k + constant,    V_k = N_k (log N_k / N - 1/2 log det Sigma_k)
    gain of a split = V_a + V_b - V_k           loss of a merge = V_i + V_j - V_ij

F is the likelihood of the points together with their labels: with each point in one component, and
each component at its maximum. It bounds the likelihood of the mixture from below, and is close to
it in many dimensions, where nearly every point belongs to one component. It needs one pass over the
points, not one for each component. A component is split by two means, which begin on both sides of
its longest axis. The merged scatter follows from those of the two parts. A round takes the best
splits and merges that share no component, as long as a split gains more than its merge loses.

Covariances of full rank have no maximum with fewer points than dimensions: no such part is made.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from zsrl_jax.gmm.covariances import DIAG, FULL, SPHERICAL
from zsrl_jax.gmm.linalg import HIGHEST, factorize
from zsrl_jax.gmm.moments import Data, Family, Moments, Responsibility, gather, join, leave
from zsrl_jax.gmm.pruning import of_few
from zsrl_jax.gmm.start import MEANS_ONLY, lloyd, nearest_label

MOVABLE = {"full": FULL, "diag": DIAG, "spherical": SPHERICAL}
POWER_STEPS = 10
TWO_MEANS_STEPS = 2
LLOYD_STEPS = 2  # after a round of moves
PAIRS = 1  # pairs whose merging is tried, per component


class Search(NamedTuple):
    """What stays the same in all rounds."""

    data: Data
    floor: Float[Array, ""]
    active: Bool[Array, " k"]
    covariance: str
    family: Family
    chunk: int

    def moments(self, label: Int[Array, " n"]) -> Moments:
        """Return the moments of the points with each label."""
        num = self.active.shape[0]
        respond = by_label(label, num)
        return gather(self.data, num, self.chunk, respond, self.family, ())[0]

    def means(self, label: Int[Array, " n"]) -> Float[Array, "k d"]:
        """Return the mean of the points with each label."""
        num = self.active.shape[0]
        respond = by_label(label, num)
        return gather(self.data, num, self.chunk, respond, MEANS_ONLY, ())[0].mean

    def volume(self, moments: Moments) -> Float[Array, " k"]:
        """Compute V_k."""
        mass = jnp.maximum(moments.mass, 1e-6)
        if self.covariance == "full":
            factor, _ = factorize(moments.scatter / mass[:, None, None], self.floor)
            half_log_det = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), axis=1)
        else:
            square = moments.scatter / mass[:, None]
            if self.covariance == "spherical":
                square = jnp.broadcast_to(jnp.mean(square, axis=1, keepdims=True), square.shape)
            half_log_det = 0.5 * jnp.sum(jnp.log(jnp.maximum(square, self.floor)), axis=1)
        share = mass / jnp.sum(self.data.weight)
        return jnp.where(moments.mass > 0, mass * (jnp.log(share) - half_log_det), 0.0)


class Proposal(NamedTuple):
    """Labels after a round of moves, F before it and what it gains; both per point."""

    label: Int[Array, " n"]
    bound: Float[Array, ""]
    gain: Float[Array, ""]


def by_label(label: Int[Array, " n"], num: int) -> Responsibility:
    """Return the responsibilities that give each point to its label; -1 gives it to none."""

    def respond(x: Float[Array, "n d"], index: Int[Array, " n"]) -> tuple[Array, Array]:
        mine = lax.dynamic_slice_in_dim(label, index[0], index.shape[0])
        share = mine[None] == jnp.arange(num)[:, None]
        return share.astype(x.dtype), jnp.zeros(x.shape[0], x.dtype)

    return respond


def searcher(
    data: Data,
    floor: Float[Array, ""],
    active: Bool[Array, " k"],
    covariance: str,
    few: bool,
    chunk: int,
) -> Search:
    """Return the search for components of a covariance type."""
    family = MOVABLE[covariance]
    return Search(data, floor, active, covariance, of_few(family) if few else family, chunk)


def improve(
    label: Int[Array, " n"], search: Search, rounds: int, least: Float[Array, ""]
) -> tuple[Int[Array, " n"], Bool[Array, ""]]:
    """Move, then let points go to the nearest mean, while F rises.

    Return the best labels, and whether no move of them gains.
    """

    def unfinished(state) -> Bool[Array, ""]:
        return state[-1] & (state[0] < rounds)

    def move(state):
        done, label, best, bound, _, _ = state
        found = propose(label, search)
        better = found.bound > bound
        again = better & (found.gain > least)
        best = jnp.where(better, jnp.where(again, found.label, label), best)
        bound = jnp.where(better, found.bound + jnp.where(again, found.gain, 0.0), bound)
        means = search.means(found.label)
        center = lloyd(means, search.data, search.active, LLOYD_STEPS, search.chunk)
        label = nearest_label(center, search.data, search.active, search.chunk)
        return done + 1, label, best, bound, better & ~again, again

    lowest = jnp.full((), -jnp.inf, search.data.x.dtype)
    yes = jnp.ones((), bool)
    state = jnp.zeros((), jnp.int32), label, label, lowest, ~yes, yes
    _, _, best, _, done, _ = lax.while_loop(unfinished, move, state)
    return best, done


def propose(label: Int[Array, " n"], search: Search) -> Proposal:
    """Return the labels after the best splits and merges, if any gains."""
    moments = search.moments(label)
    volume = jnp.where(search.active, search.volume(moments), 0.0)
    total = jnp.sum(search.data.weight)
    gain, side = split(label, moments, volume, search)
    pair, loss = merge(moments, volume, search)
    moved, won = match(gain, pair, loss)
    # Points go where their component goes, by the side they are on.
    new = jnp.where(side, moved[1, label], moved[0, label])
    return Proposal(new, jnp.sum(volume) / total, won / total)


def split(
    label: Int[Array, " n"], moments: Moments, volume: Float[Array, " k"], search: Search
) -> tuple[Float[Array, " k"], Bool[Array, " n"]]:
    """Return what splitting each component gains, and the side of each point."""
    data, num = search.data, moments.mass.shape[0]
    axis = longest_axis(moments.scatter)

    def cut(plane: tuple[Array, Array]) -> Bool[Array, " n"]:
        normal, offset = plane
        return sides(label, normal, offset, search)

    def two_means(plane, _):
        child = 2 * label + cut(plane)
        both = gather(data, 2 * num, search.chunk, by_label(child, 2 * num), MEANS_ONLY, ())[0]
        low, high = both.mean[::2], both.mean[1::2]
        normal, middle = high - low, 0.5 * (high + low)
        alive = (jnp.min(both.mass.reshape(num, 2), axis=1) > 0)[:, None]
        normal = jnp.where(alive, normal, plane[0])
        offset = jnp.where(alive[:, 0], jnp.sum(normal * middle, axis=1), plane[1])
        return (normal, offset), None

    begin = axis, jnp.sum(axis * moments.mean, axis=1)
    side = cut(lax.scan(two_means, begin, length=TWO_MEANS_STEPS)[0])

    high = search.moments(jnp.where(side, label, -1))
    low = leave(moments, high, search.family, ())
    least = data.x.shape[1] if search.covariance == "full" else 1
    sound = search.active & (jnp.minimum(high.mass, low.mass) > least)
    gain = search.volume(high) + search.volume(low) - volume
    return jnp.where(sound, gain, -jnp.inf), side


def longest_axis(scatter: Array) -> Float[Array, "k d"]:
    """Return the direction of most variance of each component."""
    if scatter.ndim == 2:
        return jax.nn.one_hot(jnp.argmax(scatter, axis=1), scatter.shape[1], dtype=scatter.dtype)

    def turn(v, _):
        v = jnp.einsum("kde,ke->kd", scatter, v, precision=HIGHEST)
        return v / jnp.maximum(jnp.max(jnp.abs(v), axis=1, keepdims=True), 1e-30), None

    widest = jnp.argmax(jnp.diagonal(scatter, axis1=1, axis2=2), axis=1)
    first = jax.nn.one_hot(widest, scatter.shape[1], dtype=scatter.dtype)
    return lax.scan(turn, first, length=POWER_STEPS)[0]


def sides(
    label: Int[Array, " n"], normal: Float[Array, "k d"], offset: Float[Array, " k"], search: Search
) -> Bool[Array, " n"]:
    """Tell on which side of its component's plane each point lies."""

    def respond(x: Float[Array, "m d"], index: Int[Array, " m"]) -> tuple[Array, Array]:
        mine = lax.dynamic_slice_in_dim(label, index[0], index.shape[0])
        height = jnp.matmul(normal, x.T, precision=HIGHEST) - offset[:, None]
        own = jnp.take_along_axis(height, mine[None], axis=0)[0]
        return jnp.zeros((1, x.shape[0]), x.dtype), own  # heights alone: no moments

    return gather(search.data, 1, search.chunk, respond, MEANS_ONLY, ()).scores > 0


def merge(
    moments: Moments, volume: Float[Array, " k"], search: Search
) -> tuple[Int[Array, "p 2"], Float[Array, " p"]]:
    """Return the pairs that k-means would merge most cheaply, and what each loses in F."""
    mass, mean = moments.mass, moments.mean
    num = mass.shape[0]
    square = jnp.sum(mean * mean, axis=1)
    apart = square[:, None] + square[None] - 2 * jnp.matmul(mean, mean.T, precision=HIGHEST)
    harm = mass[:, None] * mass[None] / jnp.maximum(mass[:, None] + mass[None], 1e-6)
    order = jnp.arange(num)
    allowed = (order[:, None] < order[None]) & search.active[:, None] & search.active[None]
    cost = jnp.where(allowed, jnp.maximum(apart, 0.0) * harm, jnp.inf).reshape(-1)
    count = min(PAIRS * num, num * (num - 1) // 2)
    least, place = lax.top_k(-cost, count)
    pair = jnp.stack([place // num, place % num], axis=1)

    def lose(args) -> Float[Array, ""]:
        pair, sound = args
        one, other = (jax.tree.map(lambda leaf, i=i: leaf[i][None], moments) for i in pair)
        both = search.volume(join(one, other, search.family, ()))[0]
        return jnp.where(sound, volume[pair[0]] + volume[pair[1]] - both, jnp.inf)

    return pair, lax.map(lose, (pair, least > -jnp.inf))


def match(
    gain: Float[Array, " k"], pair: Int[Array, "p 2"], loss: Float[Array, " p"]
) -> tuple[Int[Array, "2 k"], Float[Array, ""]]:
    """Return where both sides of each component go, and what that gains.

    The cheapest merge and the best split of another component, again and again, none used twice.
    """
    num = gain.shape[0]
    order = jnp.arange(num)

    def step(carry, _):
        moved, used, won = carry
        free = jnp.where(jnp.any(used[pair], axis=1), jnp.inf, loss)
        best = jnp.argmin(free)
        kept, freed = pair[best]
        busy = used | (order == kept) | (order == freed)
        gains = jnp.where(busy, -jnp.inf, gain)
        parent = jnp.argmax(gains)
        profit = gains[parent] - free[best]
        good = profit > 0  # false for NaN
        new = moved.at[:, freed].set(kept).at[1, parent].set(freed)
        moved = jnp.where(good, new, moved)
        used = jnp.where(good, busy | (order == parent), used)
        return (moved, used, won + jnp.where(good, profit, 0.0)), None

    begin = jnp.stack([order, order]), jnp.zeros(num, bool), jnp.zeros((), gain.dtype)
    (moved, _, won), _ = lax.scan(step, begin, length=max(1, num // 3))
    return moved, won
