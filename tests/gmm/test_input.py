"""Input that breaks mixtures: an error in one line where no fit exists, a finite fit otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zsrl_jax import gmm
from zsrl_jax.errors import DataError
from zsrl_jax.gmm import em

N, D, K = 300, 3, 3  # the shapes of test_gmm: compiled once
PLAIN = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
DAMAGE = {
    "none": lambda x: x,
    "constant column": lambda x: np.column_stack([x[:, 0], np.full(N, 7.0), x[:, 2]]),
    "collinear columns": lambda x: np.column_stack([x[:, 0], 2 * x[:, 0], x[:, 0] - 1]),
    "one point mostly": lambda x: np.where(np.arange(N)[:, None] < 250, x[:1], x),
    "two points": lambda x: np.where(np.arange(N)[:, None] % 2 == 0, x[:1], x[1:2]),
    "outlier": lambda x: np.where(np.arange(N)[:, None] == 3, 1e6, x),
    "integers": np.round,
    "needle": lambda x: np.where(np.arange(N)[:, None] < 20, 1e-5 * x, x),
}


def assert_finite_fit(mixture, trace, x):
    for name, leaf in (("mixture", mixture), ("trace", trace)):
        assert all(np.all(np.isfinite(part)) for part in jax.tree.leaves(leaf)), name
    assert np.all(np.isfinite(mixture.log_prob(x)))
    assert np.all(np.isfinite(mixture.sample(jax.random.key(1), 5)))
    assert np.all(np.diff(trace.log_likelihood) >= 0)
    assert float(trace.lost) <= rounding_loss(mixture, trace, x)


def rounding_loss(mixture, trace, x):
    """The most that one iteration may lose by rounding alone.

    The mean of N log densities is known to a few units in the last place. But float32 knows the
    variance of a direction only to about d 2^-24 of the largest variance, a tenth of the floor
    already when d = 3. Where a covariance is singular but for its floor, a pivot is accepted from
    half the floor on, may gain as much by rounding, and is multiplied by ten by a jitter: each of
    d - 1 such directions can then lose half the logarithm of that.
    """
    dim = x.shape[1]
    exact = 1e-6 * (np.abs(np.asarray(trace.log_likelihood)).max() + dim)
    spectrum = np.linalg.eigvalsh(np.asarray(mixture.covariances(), np.float64))
    floor = 1e-6 * np.var(x.astype(np.float64), axis=0).mean()
    if int(trace.jitters) == 0 and spectrum.min() > 100 * floor:
        return exact
    return exact + 0.5 * max(dim - 1, 1) * np.log(4.0 * (10.0 if int(trace.jitters) else 1.0))


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 10**6),
    covariance=st.sampled_from(["full", *sorted(em.FAMILIES)]),
    damage=st.sampled_from(sorted(DAMAGE)),
    offset=st.sampled_from([0.0, 1e4]),
    scale=st.sampled_from([1.0, 1e-8, 1e8]),
)
def test_any_input_gives_a_finite_fit_or_a_clear_error(seed, covariance, damage, offset, scale):
    noise = np.random.default_rng(seed).normal(size=(N, D))
    x = ((DAMAGE[damage](noise) + offset) * scale).astype(np.float32)
    # The k-means++ start is tried with one type; it is the same code, compiled once, for all.
    shares = np.eye(K, dtype=np.float32)[np.random.default_rng(seed).integers(0, K, N)]
    options = {} if covariance == "full" else {"responsibilities": shares}
    fitted = gmm.fit(jax.random.key(seed), x, K, 12, 0.0, covariance, rank=1, **options)
    assert_finite_fit(*fitted, x)


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_no_iteration_loses_in_double_precision_even_where_singular(covariance):
    shares = np.eye(K)[np.random.default_rng(0).integers(0, K, N)]
    noise = np.random.default_rng(0).normal(size=(N, D))
    with jax.enable_x64(True):
        for damage in ("collinear columns", "constant column", "two points", "outlier"):
            _, trace = gmm.fit(
                jax.random.key(0),
                DAMAGE[damage](noise),
                K,
                12,
                0.0,
                covariance,
                responsibilities=shares,
            )
            # What is left is the floor: Sigma + floor I is not quite the likeliest covariance.
            assert float(trace.lost) < 1e-4, damage


def test_one_dimension():
    x = PLAIN[:, :1]
    assert_finite_fit(*gmm.fit(jax.random.key(0), x, K, 12, 0.0), x)


def test_as_many_points_as_components():
    x = PLAIN[:K]
    assert_finite_fit(*gmm.fit(jax.random.key(0), x, K, 3), x)


def test_offset_and_scale_do_not_change_the_fit():
    start = np.eye(K, dtype=np.float32)[np.arange(N) % K]
    plain = gmm.fit(jax.random.key(0), PLAIN, K, 12, 0.0, responsibilities=start)[1]
    for scale in (1e-8, 1e4):
        x = PLAIN * np.float32(scale)
        moved = gmm.fit(jax.random.key(0), x, K, 12, 0.0, responsibilities=start)[1]
        expected = np.asarray(plain.log_likelihood) - D * np.log(scale)
        np.testing.assert_allclose(moved.log_likelihood, expected, atol=1e-3)
    far = PLAIN.astype(np.float64) + 1e4
    moved = gmm.fit(jax.random.key(0), far, K, 12, 0.0, responsibilities=start)[1]
    # At 1e4 the points themselves are rounded to 1e-3.
    np.testing.assert_allclose(moved.log_likelihood, plain.log_likelihood, atol=1e-2)


def with_row(value):
    x = PLAIN.copy()
    x[5, 1] = value
    return x


BAD = {
    "nan": ((with_row(np.nan), K), {}, "1 of 300 rows with NaN or infinity, the first is row 5"),
    "infinity": ((with_row(np.inf), K), {}, "row 5; remove or repair"),
    "few points": ((PLAIN[:2], K), {}, "3 components need at least as many points, found 2"),
    "one point": ((np.repeat(PLAIN[:1], 9, axis=0), K), {}, "all 9 points of x are equal"),
    "flat": ((PLAIN[:, 0], K), {}, r"found \[300\]; one dimension is x\[:, None\]"),
    "huge": ((PLAIN * 1e25, K), {}, "rescale x"),
    "type": ((PLAIN, K), {"covariance": "ful"}, "did you mean 'full'"),
    "no component": ((PLAIN, 0), {}, "num_components must be at least 1, found 0"),
    "tolerance": ((PLAIN, K), {"tolerance": -1.0}, "tolerance must be at least 0"),
    "weights": (
        (PLAIN, K),
        {"weights": np.ones(3)},
        r"weights must have shape \[300\], found \[3\]",
    ),
    "negative": ((PLAIN, K), {"weights": -np.ones(N)}, "weights must not be negative"),
    "nan weight": ((PLAIN, K), {"weights": with_row(np.nan)[:, 1]}, "weights has 1 of 300"),
    "means": ((PLAIN, K), {"means": PLAIN[:2]}, r"means must have shape \[3, 3\]"),
    "two starts": (
        (PLAIN, K),
        {"means": PLAIN[:K], "responsibilities": np.ones((N, K))},
        "not both",
    ),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_errors_say_what_is_wrong(case):
    arguments, options, message = BAD[case]
    with pytest.raises(DataError, match=message) as caught:
        gmm.fit(jax.random.key(0), *arguments, **options)
    assert "\n" not in str(caught.value)


def test_sklearn_parameters_must_be_complete():
    with pytest.raises(DataError, match="covariances_, covariance_type not found"):
        gmm.from_sklearn({"weights_": [1.0], "means_": [[0.0]]})


def test_rows_that_are_not_finite_are_left_out_and_counted_under_jit():
    key = jax.random.key(0)
    start = PLAIN[:K]
    run = jax.jit(lambda x: gmm.fit(key, x, K, 12, 0.0, means=start))
    mixture, trace = run(jnp.asarray(with_row(np.nan)))
    assert int(trace.dropped) == 1
    weights = (np.arange(N) != 5).astype(np.float32)
    expected, _ = gmm.fit(key, PLAIN, K, 12, 0.0, means=start, weights=weights)
    np.testing.assert_allclose(mixture.means, expected.means, atol=1e-4)


def test_components_of_low_rank_in_many_dimensions_are_fitted():
    """Their covariances are singular: where a factor is NaN, more jitter is tried, and found."""
    draw = np.random.default_rng(0)
    x = (draw.normal(size=(600, 100)) @ draw.normal(size=(100, 500))).astype(np.float32)
    mixture, trace = gmm.fit(jax.random.key(0), x, num_components=20, num_iters=2)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(mixture))
    assert int(trace.jitters) > 0 and np.isfinite(trace.log_likelihood).all()


@pytest.mark.parametrize("dim", [8, 50, 500])
def test_a_single_nan_among_many_columns_is_found(dim):
    x = np.random.default_rng(0).normal(size=(2000, dim)).astype(np.float32)
    x[7, dim // 2] = np.nan
    with pytest.raises(DataError, match="1 of 2000 rows with NaN or infinity, the first is row 7"):
        gmm.fit(jax.random.key(0), x, num_components=3)
