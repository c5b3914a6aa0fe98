"""Statistics against published examples, values worked by hand, and simulated studies."""

import math

import numpy as np
import pytest

from zsrl_jax.analysis import statistics as stats


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # the two published examples of the interquartile mean (Wikipedia)
        ([5, 8, 4, 38, 8, 6, 9, 7, 7, 3, 1, 6], 6.5),
        ([1, 3, 5, 7, 9, 11, 13, 15, 17], 9.0),
        ([7], 7.0),
        ([[0, 100], [2, 4]], 3.0),
        ([np.nan, 1, 3, 5, 8], 4.0),  # what is missing is neither low nor high
    ],
)
def test_interquartile_mean(scores, expected):
    assert stats.interquartile_mean(np.array(scores, float)) == expected


def test_probability_of_improvement_is_the_published_mann_whitney_example():
    # Aesop's race of six tortoises and six hares: T H H H H H T T T T T H (Wikipedia, U = 11, 25)
    order = "THHHHHTTTTTH"
    rank = {a: [[-i] for i, x in enumerate(order) if x == a] for a in "TH"}
    t, h = np.array(rank["T"]), np.array(rank["H"])
    assert stats.improvement(t, h, paired=False) == pytest.approx(11 / 36)
    assert stats.improvement(h, t, paired=False) == pytest.approx(25 / 36)


def test_paired_improvement_compares_seed_with_seed_and_nan_is_no_loss():
    better = np.array([[2.0, 5.0], [9.0, 1.0]])
    than = np.array([[1.0, 5.0], [8.0, 4.0]])
    assert stats.improvement(better, than) == (1 + 0.5 + 1 + 0) / 4
    assert stats.improvement(better, than, paired=False) == (3 / 4 + 1.5 / 4) / 2
    than[1, 1] = np.nan
    assert stats.improvement(better, than) == (1 + 0.5 + 1) / 3
    assert math.isnan(stats.improvement(better[1:, 1:], than[1:, 1:]))


def test_an_interval_is_students_and_its_units_are_whole_seeds():
    # five seeds of mean 12 and deviation sqrt(2.5); t(0.975, 4) = 2.776 (any table)
    seeds = np.array([10.0, 11, 12, 13, 14])
    half = 2.7764 * math.sqrt(2.5 / 5)
    expected = pytest.approx((12, 12 - half, 12 + half), abs=1e-3)
    assert stats.interval(seeds) == expected
    tasks = seeds[:, None] + np.array([-5.0, 0, 5])  # three tasks that rise and fall together
    assert stats.interval(tasks) == expected  # say no more than one
    twice = np.repeat(seeds, 2) + np.tile([-1.0, 1], 5)  # two seeds of each of five collections
    assert stats.interval(twice, np.repeat(np.arange(5), 2)) == expected
    narrow = stats.interval(twice)
    assert narrow.high - narrow.low < 2 * half  # as if each were a collection of its own


def test_one_run_has_a_mean_but_neither_spread_nor_interval():
    mean, spread = stats.mean_spread(np.array([[3.0, 5.0]]))
    assert mean == 4.0 and math.isnan(spread)
    value, *ends = stats.interval(np.array([[3.0, 5.0]]))
    assert value == 4.0 and np.isnan(ends).all()
    with pytest.raises(ValueError, match="expected runs"):
        stats.interval(np.zeros((0, 3)))


def correlated(draw, studies, seeds, tasks, correlation):
    shared = draw.normal(size=(studies, seeds, 1)) * math.sqrt(correlation)
    own = draw.normal(size=(studies, seeds, tasks)) * math.sqrt(1 - correlation)
    return 300 + 100 * (shared + own)


def coverage(found, truth):
    return np.mean([each.low <= truth <= each.high for each in found])


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_cover_whatever_the_correlation_of_tasks(seeds, correlation):
    studies = correlated(np.random.default_rng(1), 1000, seeds, 4, correlation)
    assert 0.90 <= coverage([stats.interval(study) for study in studies], 300) <= 0.98


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_intervals_of_interquartile_means_cover(correlation):
    # seven encoders share a seed's collection: 35 runs, five units
    studies = correlated(np.random.default_rng(2), 500, 5, 7, correlation)
    found = [stats.interval(study, None, stats.interquartile_mean) for study in studies]
    assert 0.90 <= coverage(found, 300) <= 0.98


def test_intervals_over_collections_cover_what_intervals_over_seeds_do_not():
    # five collections, four seeds of each, half of the variance from data
    studies = correlated(np.random.default_rng(3), 1000, 5, 4, 0.5).reshape(1000, 20)
    units = np.repeat(np.arange(5), 4)
    assert 0.90 <= coverage([stats.interval(study, units) for study in studies], 300) <= 0.98
    assert coverage([stats.interval(study) for study in studies], 300) < 0.85


def test_profile_counts_what_lies_above():
    scores = np.array([[0.0, 10.0], [20.0, 30.0]])
    np.testing.assert_array_equal(
        stats.profile(scores, np.array([-1.0, 0, 15, 30])), [1, 0.75, 0.5, 0]
    )


def test_the_paired_test_is_students_published_example():
    # Student (1908): ten patients, hours of sleep gained by one drug over the other; t = 4.0621
    hours = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    assert stats.paired_test(hours) == pytest.approx(0.002833, abs=1e-6)
    assert stats.paired_test(-hours) == stats.paired_test(hours)
    assert stats.paired_test(np.zeros(3)) == 1.0 and stats.paired_test(np.ones(3)) == 0.0
    assert math.isnan(stats.paired_test(np.array([5.0])))


def test_holms_correction_by_hand():
    # sorted .005, .01, .03, .04 times 4, 3, 2, 1; the last may not be below the one before it
    found = stats.holm([0.01, 0.04, math.nan, 0.03, 0.005])
    assert found[:2] == pytest.approx([0.03, 0.06]) and found[3:] == pytest.approx([0.06, 0.02])
    assert math.isnan(found[2]) and stats.holm([0.7, 0.9]) == [1.0, 1.0] and stats.holm([]) == []


def test_an_outcome_needs_a_small_p_and_more_than_one_seed():
    assert stats.outcome(3.0, 0.05) == "win" and stats.outcome(-3.0, 0.05) == "loss"
    assert stats.outcome(3.0, 0.051) == "undecided" and stats.outcome(0.0, 1.0) == "undecided"
    assert stats.outcome(100.0, math.nan) == "one seed"


def test_equal_samplers_win_no_more_often_than_the_level_says():
    draw = np.random.default_rng(4)
    wins = 0
    for _ in range(1000):  # studies of seven cells and five seeds
        values = [stats.paired_test(cell) for cell in draw.normal(size=(7, 5))]
        wins += min(stats.holm(values)) <= stats.LEVEL
    assert wins / 1000 <= 0.065  # 0.05 and two errors


def test_a_ratio_is_of_means_and_its_interval_is_fiellers():
    # Means 6 and 4; variances of the means 1/3 and 1/3, no covariance. t(0.975, 2) = 4.3027, so
    # g = 18.513 / 3 / 16 = 0.38568 and (1.5 -+ sqrt(g (1 + 2.25 - g))) / (1 - g).
    above, below = np.array([5.0, 6, 7]), np.array([4.0, 4, 4])
    below = below + np.array([1.0, -2, 1]) / math.sqrt(3)
    assert np.cov(above, below)[0, 1] == pytest.approx(0)
    root = math.sqrt(0.38568 * (3.25 - 0.38568))
    expected = (1.5, (1.5 - root) / 0.61432, (1.5 + root) / 0.61432)
    assert stats.ratio(above, below) == pytest.approx(expected, abs=1e-3)
    assert stats.ratio(above, np.array([3.0, 3, 3])) == pytest.approx(
        (2.0, 2 - 4.3027 / 3 / math.sqrt(3), 2 + 4.3027 / 3 / math.sqrt(3)), abs=1e-4
    )  # a sure divisor: the interval of the mean over it


def test_a_ratio_over_nothing_is_undefined_and_over_noise_unbounded():
    assert np.isnan(stats.ratio(np.array([1.0, 2]), np.array([1.0, -1]))).all()
    assert stats.ratio(np.array([1.0, 2]), np.array([-1.0, 3]))[1:] == (-math.inf, math.inf)
    value, *ends = stats.ratio(np.array([3.0]), np.array([2.0]))
    assert value == 1.5 and np.isnan(ends).all()


def test_under_equality_the_ratio_is_one_and_its_interval_covers():
    draw = np.random.default_rng(5)
    found = [stats.ratio(*(100 + 30 * draw.normal(size=(2, 5)))) for _ in range(2000)]
    assert np.median([each.value for each in found]) == pytest.approx(1, abs=0.02)
    assert 0.93 <= coverage(found, 1.0) <= 0.97


def test_normalised_scores_are_0_at_random_and_1_at_the_most():
    random = np.array([0.0, 200.0])
    scores = np.array([[0.0, 200.0], [1000.0, 1000.0], [500.0, 200.0]])
    np.testing.assert_allclose(stats.normalised(scores, random), [0, 1, 0.25])


def test_the_variance_of_data_and_training_by_hand():
    # Collections (1, 3) and (7, 9): within 2 and 2 over 2 degrees; between 2 (3^2 + 3^2) = 36.
    assert stats.variance(np.array([1.0, 3, 7, 9]), (0, 0, 1, 1)) == (17.0, 2.0)
    assert stats.variance(np.array([1.0, 9, 3, 7]), (0, 0, 1, 1)) == (
        -10.0,
        20.0,
    )  # below 0 by chance
    assert stats.variance(np.array([1.0, 3, 7]), (0, 1, 2)) is None  # one seed of each
    assert stats.variance(np.array([1.0, 3, 7]), (0, 0, 0)) is None  # one collection
    draw = np.random.default_rng(6)
    runs = correlated(draw, 1, 400, 3, 0.7)[0].reshape(-1)  # 400 collections, 70 % from data
    data, training = stats.variance(runs, np.repeat(np.arange(400), 3))
    assert data == pytest.approx(7000, rel=0.15) and training == pytest.approx(3000, rel=0.15)
    alike = draw.normal(size=(2000, 6))  # studies of three collections that do not differ
    found = [stats.variance(study, (0, 0, 1, 1, 2, 2)).data for study in alike]
    assert abs(np.mean(found)) < 0.05
