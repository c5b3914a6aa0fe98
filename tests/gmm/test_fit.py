"""The mixture against closed forms, scikit-learn in float64, and itself in pieces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from zsrl_jax import gmm
from zsrl_jax.gmm import em, fitting, linalg
from zsrl_jax.gmm.moments import chunk_size

COVARIANCES = sorted(em.FAMILIES)
SKLEARN = sorted(set(COVARIANCES) - {"low_rank"})
N, D, K = 300, 3, 3


def clusters(num, dim, components, seed=0, overlap=0.5):
    """Points of overlapping correlated clusters, and responsibilities to start from."""
    draw = np.random.default_rng(seed)
    center = draw.normal(size=(components, dim)) / overlap
    shape = draw.normal(size=(components, dim, dim)) / np.sqrt(dim)
    label = draw.integers(components, size=num)
    noise = draw.normal(size=(num, dim))
    x = center[label] + np.einsum("nij,nj->ni", shape[label], noise)
    x = x + 0.3 * draw.normal(size=(num, dim))
    moved = np.where(draw.random(num) < 0.3, draw.integers(components, size=num), label)
    return x.astype(np.float32), np.eye(components, dtype=np.float32)[moved]


def sklearn_fit(x, responsibilities, covariance, iterations, floor):
    """EM of scikit-learn in float64 from the M step of these responsibilities."""
    x = x.astype(np.float64)
    model = GaussianMixture(
        responsibilities.shape[1],
        covariance_type=covariance,
        max_iter=iterations,
        tol=0,
        reg_covar=floor,
    )
    model._initialize(x, responsibilities.astype(np.float64))
    for _ in range(iterations):
        log_responsibilities = model._e_step(x)[1]
        model._m_step(x, log_responsibilities)
    return model


def floor_of(x):
    """The absolute covariance floor that gmm.fit uses for these data."""
    return 1e-6 * float(np.var(x.astype(np.float64), axis=0).mean())


def fit(key=0, num_iters=12, tolerance=0.0, data=None, **options):
    x = clusters(N, D, K)[0] if data is None else data
    return gmm.fit(jax.random.key(key), x, K, num_iters, tolerance, **options)


def test_one_component_is_the_mean_and_the_covariance():
    x, _ = clusters(N, D, K)
    mixture, _ = gmm.fit(jax.random.key(0), x, 1, 12, 0.0)
    np.testing.assert_allclose(mixture.means[0], x.mean(axis=0), atol=1e-5)
    expected = np.cov(x.T, bias=True) + floor_of(x) * np.eye(D)
    np.testing.assert_allclose(mixture.covariances()[0], expected, rtol=1e-4, atol=1e-5)
    assert float(mixture.weights[0]) == 1.0


@pytest.mark.parametrize("dim,components", [(50, 4), (200, 3)])
def test_float32_agrees_with_sklearn_in_float64(dim, components):
    x, start = clusters(2000, dim, components, overlap=2.0)
    mixture, trace = gmm.fit(
        jax.random.key(0), x, components, num_iters=6, tolerance=0.0, responsibilities=start
    )
    model = sklearn_fit(x, start, "full", 6, floor_of(x))
    assert abs(float(trace.log_likelihood[-1]) - model.score(x)) < 1e-3
    np.testing.assert_allclose(mixture.log_prob(x), model.score_samples(x), atol=1e-2)


@pytest.mark.parametrize("covariance", SKLEARN)
def test_every_covariance_type_agrees_with_sklearn(covariance):
    x, start = clusters(N, D, K)
    mixture, trace = fit(covariance=covariance, responsibilities=start)
    model = sklearn_fit(x, start, covariance, 12, floor_of(x))
    np.testing.assert_allclose(trace.log_likelihood[-1], model.score(x), atol=1e-4)
    found = gmm.to_sklearn(mixture)
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
        np.testing.assert_allclose(found[name], getattr(model, name), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(mixture.bic(x), model.bic(x), rtol=1e-4)
    np.testing.assert_allclose(mixture.aic(x), model.aic(x), rtol=1e-4)


@pytest.mark.parametrize("covariance", SKLEARN)
def test_sklearn_parameters_go_there_and_back(covariance):
    x, start = clusters(N, D, K)
    model = sklearn_fit(x, start, covariance, 2, 1e-6)
    mixture = gmm.from_sklearn(vars(model))
    np.testing.assert_allclose(mixture.log_prob(x), model.score_samples(x), atol=1e-4)
    blank = GaussianMixture()
    vars(blank).update(gmm.to_sklearn(mixture))
    np.testing.assert_allclose(blank.score_samples(x), model.score_samples(x), atol=1e-4)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_likelihood_never_falls_and_tolerance_zero_runs_all_iterations(covariance):
    x, start = clusters(N, D, K)
    mixture, trace = fit(covariance=covariance, rank=1, responsibilities=start)
    assert trace.log_likelihood.shape == (13,)
    assert int(trace.iterations) == 12 and not bool(trace.converged)
    assert int(trace.falls) == 0
    assert np.all(np.diff(trace.log_likelihood) >= 0)
    assert float(trace.log_likelihood[-1]) > float(trace.log_likelihood[0])
    np.testing.assert_allclose(mixture.score(x), trace.log_likelihood[-1], atol=1e-5)


def test_trace_repeats_the_last_value_after_convergence():
    _, trace = fit(tolerance=1e-2)
    done = int(trace.iterations)
    assert bool(trace.converged) and done < 12
    assert np.all(np.asarray(trace.log_likelihood[done:]) == float(trace.log_likelihood[done]))
    assert abs(float(trace.log_likelihood[done] - trace.log_likelihood[done - 1])) < 1e-2


@pytest.mark.parametrize("covariance", ["full", "low_rank"])
def test_pieces_give_the_result_of_the_whole(covariance):
    x, start = clusters(N, D, K)
    whole = fit(covariance=covariance, rank=1, responsibilities=start)
    # Seven chunks of 43 are 301: the last chunk overlaps the one before.
    pieces = fit(covariance=covariance, rank=1, responsibilities=start, chunk=45)
    np.testing.assert_allclose(
        pieces[1].log_likelihood, whole[1].log_likelihood, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(pieces[0].means, whole[0].means, rtol=1e-3, atol=1e-3)


def test_a_million_points_stay_within_200_mib():
    shape = jax.ShapeDtypeStruct
    options = em.Options(20, 100, "full", 1, 0, 5, chunk_size(50), True, 4, 1, 10)
    x, weight = shape((1_000_000, 50), np.float32), shape((1_000_000,), np.float32)
    active, none = shape((20,), np.bool_), (None, None)
    compiled = fitting.fit_arrays.lower(
        jax.random.key(0), x, weight, active, 1e-3, 1e-6, none, options
    ).compile()
    memory = compiled.memory_analysis()
    assert memory.temp_size_in_bytes + memory.output_size_in_bytes < 200 * 2**20


@pytest.mark.whole
def test_a_million_points_in_chunks_give_the_result_of_one_piece():
    points = jnp.asarray(clusters(N, D, K)[0])
    start = jnp.asarray(clusters(N, D, K)[1])
    one_piece = fit(responsibilities=start)
    # 3334 copies of each point have the fit of the points themselves.
    copies = [jnp.tile(array, (3334, 1)) for array in (points, start)]
    chunked = fit(data=copies[0], responsibilities=copies[1])
    assert copies[0].shape[0] > 1_000_000
    np.testing.assert_allclose(chunked[0].means, one_piece[0].means, atol=1e-4)
    np.testing.assert_allclose(
        chunked[1].log_likelihood, one_piece[1].log_likelihood, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("covariance", ["full", "tied", "low_rank"])
def test_weights_count_as_copies(covariance):
    x, start = clusters(N, D, K)
    times = np.bincount(np.random.default_rng(1).integers(0, N, N), minlength=N)
    copies = np.repeat(np.arange(N), times)
    options = {"covariance": covariance, "rank": 1}
    weighted = fit(weights=times, responsibilities=start, **options)
    copied = fit(data=x[copies], responsibilities=start[copies], **options)
    np.testing.assert_allclose(weighted[0].means, copied[0].means, atol=1e-3)
    np.testing.assert_allclose(
        weighted[1].log_likelihood, copied[1].log_likelihood, rtol=1e-5, atol=1e-5
    )


def test_vmap_over_seeds_equals_single_fits():
    x = jnp.asarray(clusters(N, D, K)[0])
    keys = jax.random.split(jax.random.key(3), 2)
    many = jax.vmap(lambda key: gmm.fit(key, x, K, 12, 0.0))(keys)
    for seed in range(2):
        one = gmm.fit(keys[seed], x, K, 12, 0.0)
        np.testing.assert_allclose(many[0].means[seed], one[0].means, atol=1e-4)
        np.testing.assert_allclose(many[1].log_likelihood[seed], one[1].log_likelihood, atol=1e-5)
    draws = jax.vmap(lambda mixture, key: mixture.sample(key, 7))(many[0], keys)
    assert draws.shape == (2, 7, D)


@pytest.mark.whole
def test_vmap_over_component_counts():
    x = jnp.asarray(clusters(N, D, K)[0])
    counts = jnp.arange(1, K + 1)

    def run(count):
        mixture, trace = gmm.fit(jax.random.key(0), x, K, 12, 0.0, num_active=count)
        return mixture, trace.log_likelihood[-1], mixture.bic(x)

    mixture, score, bic = jax.vmap(run)(counts)
    np.testing.assert_array_equal((mixture.weights > 0).sum(axis=1), counts)
    single, trace = gmm.fit(jax.random.key(0), x, 1, 12, 0.0)
    np.testing.assert_allclose(score[0], trace.log_likelihood[-1], atol=1e-5)
    np.testing.assert_allclose(bic[0], single.bic(x), rtol=1e-5)
    assert np.all(np.diff(score) > 0)


def test_restarts_keep_the_likeliest():
    x = clusters(N, D, K)[0]
    key = jax.random.key(5)
    best = gmm.fit(key, x, K, 12, 0.0, num_restarts=3)[1].log_likelihood[-1]
    single = [
        gmm.fit(child, x, K, 12, 0.0)[1].log_likelihood[-1] for child in jax.random.split(key, 3)
    ]
    np.testing.assert_allclose(best, max(single), atol=1e-5)


def test_dead_components_are_planted_anew_and_counted():
    x, _ = clusters(N, D, K)
    means = np.stack([x[0], x[1], np.full(D, 1e4, np.float32)])
    mixture, trace = fit(means=means)
    assert int(trace.reseeds) >= 1
    assert np.all(np.asarray(mixture.weights) > 0.5 / N)
    assert np.abs(mixture.means).max() < 100


def test_jitter_escalates_until_the_factor_exists_and_is_counted():
    matrix = jnp.asarray([[[1.0, 1.01], [1.01, 1.0]], [[2.0, 0.0], [0.0, 2.0]]])
    factor, jitters = linalg.factorize(matrix, jnp.asarray(1e-4))
    # Eigenvalue -0.01 takes 1e-4 -> 1e-1 (three more attempts); the healthy matrix takes none.
    assert int(jitters) == 3
    expected = matrix + jnp.asarray([0.1, 1e-4])[:, None, None] * jnp.eye(2)[None]
    np.testing.assert_allclose(factor @ factor.transpose(0, 2, 1), expected, rtol=1e-5)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_samples_and_distrax_have_the_moments_of_the_mixture(covariance):
    x, start = clusters(N, D, K)
    mixture, _ = fit(covariance=covariance, rank=1, responsibilities=start)
    distribution = mixture.distribution()
    with jax.numpy_rank_promotion("allow"):  # distrax relies on it
        expected = distribution.log_prob(x)
    np.testing.assert_allclose(mixture.log_prob(x), expected, atol=1e-3)
    draws = np.asarray(jax.jit(lambda m, k: m.sample(k, 20_000))(mixture, jax.random.key(1)))
    weights, means = np.asarray(mixture.weights), np.asarray(mixture.means)
    center = weights @ means
    spread = np.einsum("k,kij->ij", weights, mixture.covariances())
    spread += (means - center).T @ ((means - center) * weights[:, None])
    np.testing.assert_allclose(draws.mean(axis=0), center, atol=0.1)
    np.testing.assert_allclose(np.cov(draws.T), spread, atol=0.05 * np.trace(spread))


def test_low_rank_finds_the_factor_model_it_was_drawn_from():
    draw = np.random.default_rng(0)
    loadings = draw.normal(size=(12, 2))
    noise = draw.uniform(0.3, 0.6, 12)
    x = draw.normal(size=(20_000, 2)) @ loadings.T + noise * draw.normal(size=(20_000, 12))
    mixture, trace = gmm.fit(jax.random.key(0), x, 1, 50, 0.0, covariance="low_rank", rank=2)
    truth = loadings @ loadings.T + np.diag(noise**2)
    np.testing.assert_allclose(mixture.covariances()[0], truth, atol=0.05 * truth.max())
    np.testing.assert_allclose(mixture.covariance.noise[0], noise, atol=0.03)
    assert int(trace.falls) == 0
    assert int(mixture.num_parameters()) == 12 + 12 * 2 - 1 + 12
