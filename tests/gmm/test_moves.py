"""Seeds, splits and merges by hand, and planted clusters that a plain start misses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zsrl_jax import gmm
from zsrl_jax.gmm import moves, start
from zsrl_jax.gmm.moments import Data

N, D, K = 1200, 4, 8
FLOOR = 1e-6


def as_data(x, weight=None):
    x = jnp.asarray(x, jnp.float32)
    weight = jnp.ones(len(x)) if weight is None else jnp.asarray(weight, jnp.float32)
    return Data(x, weight, jnp.zeros(x.shape[1]), jnp.ones(()))


def planted(seed=0):
    """Points of clusters that overlap in no place, and their labels."""
    draw = np.random.default_rng(seed)
    shape = draw.normal(size=(K, D, D)) / np.sqrt(D) + 0.3 * np.eye(D)[None]
    label = draw.integers(K, size=N)
    x = 6 * draw.normal(size=(K, D))[label]
    x = x + np.einsum("nij,nj->ni", shape[label], draw.normal(size=(N, D)))
    return x.astype(np.float32), label


def misplaced(label):
    """Labels in which clusters 0 and 1 are one, and cluster 2 is cut into two."""
    cut = np.random.default_rng(1).random(N) < 0.5
    return np.where(label == 1, 0, np.where((label == 2) & cut, 1, label))


def labelled_likelihood(x, label):
    """F in float64, without its constant: the sum over components of V_k, per point."""
    total = 0.0
    for k in np.unique(label):
        mine = x[label == k].astype(np.float64)
        sigma = np.cov(mine.T, bias=True) + FLOOR * np.eye(D)
        total += len(mine) * (np.log(len(mine) / len(x)) - 0.5 * np.linalg.slogdet(sigma)[1])
    return total / len(x)


def search(x):
    return moves.searcher(as_data(x), jnp.asarray(FLOOR), jnp.ones(K, bool), "full", False, 500)


def test_indices_are_drawn_in_proportion_and_never_where_the_share_is_zero():
    share = jnp.asarray([0.0, 1.0, 0.0, 3.0, 0.0])
    drawn = np.asarray(start.draw_places(jax.random.key(0), share, 20_000))
    assert set(drawn) == {1, 3}
    np.testing.assert_allclose((drawn == 3).mean(), 0.75, atol=0.02)


def test_squared_distances_by_hand():
    found = start.squared_distances(
        as_data([[0, 0], [3, 4], [1, 0]]), jnp.asarray([[0.0, 0.0], [3.0, 0.0]]), 2
    )
    np.testing.assert_allclose(found, [[0, 25, 1], [9, 16, 4]], atol=1e-5)


@pytest.mark.parametrize(
    ("points", "weight", "expected"),
    [
        # From 0 the rest is 1 + 4, from 1 it is 1 + 1, from 2 it is 4 + 1: the middle is taken.
        ([0, 1, 2], [1, 1, 1], [1]),
        # From 0 the rest is 1 + 4, from 1 it is 10 + 1.
        ([0, 1, 2], [10, 1, 1], [0]),
        # From 0 the rest is 1 + 100, from 1 it is 1 + 1 + 81; then 10 leaves 2, and 0 leaves 81.
        ([0, 0, 1, 10], [1, 1, 1, 1], [1, 10]),
        # Every point lies on a seed: the last is any of them.
        ([5, 5, 7], [1, 1, 1], [5, 7, None]),
    ],
)
def test_greedy_seeds_leave_the_least_inertia(points, weight, expected):
    data = as_data(np.asarray(points)[:, None], weight)
    for seed in range(5):
        found = start.greedy_centers(jax.random.key(seed), data, len(expected), 2, 200)[:, 0]
        for value, wanted in zip(found, expected, strict=True):
            assert float(value) in points if wanted is None else float(value) == wanted


def test_of_several_starts_the_one_of_least_inertia_goes_on():
    x, _ = planted()
    data, active = as_data(x), jnp.ones(K, bool)
    key = jax.random.key(3)

    def inertia(center):
        return float(start.squared_distances(data, center, 500).min(axis=0).sum())

    best = inertia(start.best_centers(key, data, active, 2, 500, 1, 6))
    single = [
        inertia(start.best_centers(child, data, active, 2, 500, 1, 1))
        for child in jax.random.split(key, 6)
    ]
    assert best == pytest.approx(min(single), rel=1e-5) and max(single) > 1.1 * best


def test_a_round_of_moves_finds_the_planted_clusters_and_gains_what_it_says():
    x, label = planted()
    wrong = misplaced(label)
    found = jax.jit(lambda label: moves.propose(label, search(x)))(jnp.asarray(wrong, jnp.int32))
    pairs = set(zip(label.tolist(), np.asarray(found.label).tolist(), strict=True))
    assert len(pairs) == K  # one name for each cluster, and no two with the same
    before, after = labelled_likelihood(x, wrong), labelled_likelihood(x, label)
    np.testing.assert_allclose(found.bound, before, atol=1e-3)
    np.testing.assert_allclose(found.gain, after - before, atol=1e-3)


def test_no_move_is_made_of_the_planted_clusters():
    x, label = planted()
    found = moves.propose(jnp.asarray(label, jnp.int32), search(x))
    np.testing.assert_array_equal(found.label, label)
    assert float(found.gain) == 0.0


def test_no_component_is_used_by_two_moves():
    gain = jnp.asarray([9.0, 8.0, -jnp.inf, 1.0, 7.0, 0.5])
    pair = jnp.asarray([[2, 3], [0, 2], [3, 5], [1, 4]])
    moved, won = moves.match(gain, pair, jnp.asarray([2.0, 1.0, 3.0, 100.0]))
    # Cheapest: 2 goes into 0, so 0 is not split; the best other is 1, which gets the place of 2.
    # Then 5 goes into 3, and 4 gets the place of 5. What is left would lose.
    np.testing.assert_array_equal(moved[0], [0, 1, 0, 3, 4, 3])
    np.testing.assert_array_equal(moved[1], [0, 2, 0, 3, 5, 3])
    assert float(won) == (8 - 1) + (7 - 3)


def test_the_planted_clusters_are_found_where_one_plain_start_fails():
    x, label = planted(1)
    points = jnp.asarray(x)
    truth = gmm.fit(jax.random.key(0), x, K, responsibilities=np.eye(K)[label])[1][-1]

    def final(key, **options):
        return gmm.fit(key, points, K, **options)[1][-1]

    keys = jax.random.split(jax.random.key(0), 6)
    plain = [float(final(key, candidates=1, moves=0)) for key in keys]
    found = [float(final(key)) for key in keys]
    assert sum(value > truth - 0.01 for value in plain) <= 3
    assert min(found) > truth - 0.01


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_the_trace_never_falls_when_components_move(covariance):
    """From a given start all moves are made between runs of EM."""
    x, label = planted()
    given = np.eye(K, dtype=np.float32)[misplaced(label)]
    options = {"covariance": covariance, "responsibilities": given}
    stuck, moved = (gmm.fit(jax.random.key(0), x, K, moves=m, **options)[1] for m in (0, 5))
    assert np.all(np.diff(moved.log_likelihood) >= 0) and int(moved.falls) == 0
    if covariance == "full":
        assert float(moved[-1]) > float(stuck[-1]) + 0.1
    assert float(moved[-1]) >= float(stuck[-1])


def test_a_given_start_is_left_alone_unless_moves_are_asked_for():
    x, label = planted()
    given = np.eye(K, dtype=np.float32)[misplaced(label)]
    fits = [
        gmm.fit(jax.random.key(0), x, K, responsibilities=given, **options)[1]
        for options in ({}, {"moves": 0})
    ]
    np.testing.assert_array_equal(*(trace.log_likelihood for trace in fits))


@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_points_on_top_of_each_other_stay_finite_with_moves(covariance):
    x, _ = planted()
    for damage in (np.round(x / 8), np.where(np.arange(N)[:, None] < N - 9, x[:1], x)):
        mixture, trace = gmm.fit(jax.random.key(0), damage, K, 12, covariance=covariance)
        leaves = jax.tree.leaves((mixture, trace))
        assert all(np.isfinite(leaf).all() for leaf in leaves)
        assert np.all(np.diff(trace.log_likelihood) >= 0)


def test_keys_are_used_once():
    x = jnp.asarray(planted()[0])
    with jax.debug_key_reuse(True):
        jax.jit(lambda key: gmm.fit(key, x, K, 3, starts=2)[1])(jax.random.key(0))
