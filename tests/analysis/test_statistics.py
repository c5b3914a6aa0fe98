"""Statistics against published examples and values worked by hand."""

import itertools

import numpy as np
import pytest

from zsrl_jax.analysis import statistics as stats

# Published data: the survival times of seven treated mice in Efron and Tibshirani, An Introduction
# to the Bootstrap (1993), whose bootstrap standard error of the mean is 23.36 (table 2.2).
MICE = np.array([94.0, 197.0, 16.0, 38.0, 99.0, 141.0, 23.0])


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # the two published examples of the interquartile mean (Wikipedia)
        ([5, 8, 4, 38, 8, 6, 9, 7, 7, 3, 1, 6], 6.5),
        ([1, 3, 5, 7, 9, 11, 13, 15, 17], 9.0),
        ([7], 7.0),
        ([[0, 100], [2, 4]], 3.0),  # runs and tasks together, as the definition says
    ],
)
def test_interquartile_mean(scores, expected):
    assert stats.interquartile_mean(np.atleast_2d(scores)) == expected


def test_probability_of_improvement_is_the_published_mann_whitney_example():
    # Aesop's race of six tortoises and six hares: T H H H H H T T T T T H (Wikipedia, U = 11, 25)
    order = "THHHHHTTTTTH"
    rank = {a: [[-i] for i, x in enumerate(order) if x == a] for a in "TH"}
    t, h = np.array(rank["T"]), np.array(rank["H"])
    assert stats.improvement(t, h, paired=False) == pytest.approx(11 / 36)
    assert stats.improvement(h, t, paired=False) == pytest.approx(25 / 36)


def test_paired_improvement_compares_seed_with_seed():
    better = np.array([[2.0, 5.0], [9.0, 1.0]])
    than = np.array([[1.0, 5.0], [8.0, 4.0]])
    assert stats.improvement(better, than) == (1 + 0.5 + 1 + 0) / 4
    assert stats.improvement(better, than, paired=False) == (3 / 4 + 1.5 / 4) / 2
    value = stats.improvement_interval(better, than)
    assert value.value == 0.625 and 0 <= value.low <= value.value <= value.high <= 1


def test_bootstrap_has_the_published_standard_error():
    seen = []

    def keep(x):
        seen.append(stats.mean(x))
        return seen[-1]

    stats.bootstrap(MICE[:, None], keep, 20_000)
    values = seen[0]
    assert np.mean(values) == pytest.approx(86.86, abs=0.5)
    assert np.std(values) == pytest.approx(23.36, abs=0.35)  # three errors of 20,000 draws


def test_bootstrap_is_stratified_exact_and_repeatable():
    # Two runs of two tasks: every task is drawn by itself, so all 16 tables are equally likely.
    scores = np.array([[0.0, 10.0], [1.0, 30.0]])
    means = [
        np.mean([scores[a, 0], scores[b, 0], scores[c, 1], scores[d, 1]])
        for a, b, c, d in itertools.product((0, 1), repeat=4)
    ]
    kept = []

    def keep(x):
        kept.append(stats.mean(x))
        return kept[-1]

    result = stats.bootstrap(scores, keep, 4000)
    seen = kept[0]
    assert set(np.round(seen, 9)) == set(np.round(means, 9))
    for value in set(means):
        share = np.mean(np.isclose(seen, value))
        assert share == pytest.approx(np.mean(np.isclose(means, value)), abs=0.03)
    assert result.value == scores.mean()
    again = stats.bootstrap(scores, stats.mean, 4000)
    assert again == result
    assert (result.low, result.high) == (min(means), max(means))


def test_one_run_has_no_spread_and_an_interval_of_no_width():
    mean, spread = stats.mean_spread(np.array([[3.0, 5.0]]))
    assert mean == 4.0 and np.isnan(spread)
    assert stats.bootstrap(np.array([[3.0, 5.0]]), stats.mean) == (4.0, 4.0, 4.0)


def test_profile_counts_what_lies_above():
    scores = np.array([[0.0, 10.0], [20.0, 30.0]])
    np.testing.assert_array_equal(
        stats.profile(scores, np.array([-1.0, 0, 15, 30])), [1, 0.75, 0.5, 0]
    )


def test_gain_and_outcome():
    # the paper's FB row (cheetah): 464 +- 60 to 579 +- 25 is +24.8 %
    assert stats.gain(579, 464) == pytest.approx(24.784, abs=1e-3)
    assert np.isnan(stats.gain(1.0, 0.0))
    assert stats.outcome(np.array([5.0, 7.0]), np.array([1.0, 3.0])) == "win"
    assert stats.outcome(np.array([1.0, 3.0]), np.array([5.0, 7.0])) == "loss"
    # means 4 and 3, errors sqrt(18/2) = 3: within
    assert stats.outcome(np.array([1.0, 7.0]), np.array([3.0, 3.0])) == "tie"
    assert stats.outcome(np.array([4.0]), np.array([4.0])) == "tie"
    assert stats.outcome(np.array([4.0]), np.array([3.0])) == "win"


def test_scores_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="expected \\(runs, tasks\\)"):
        stats.bootstrap(np.zeros(3))


def test_a_task_of_fewer_runs_counts_with_those_it_has():
    ragged = np.array([[1.0, np.nan], [3.0, 8.0], [5.0, np.nan]])
    assert stats.mean(ragged) == (1 + 3 + 5 + 8) / 4
    assert stats.interquartile_mean(ragged) == (3 + 5) / 2
    found = stats.bootstrap(ragged, stats.mean)
    assert found.value == 4.25 and (found.low, found.high) == (11 / 4, 23 / 4)  # 8 is in all draws
    np.testing.assert_array_equal(stats.profile(ragged, np.array([2.0, 6.0])), [0.75, 0.25])
