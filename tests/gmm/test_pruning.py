"""What is left out of an iteration cannot matter: the same fit as in full, on any data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zsrl_jax import gmm
from zsrl_jax.errors import DataError
from zsrl_jax.gmm import pruning

N, D, K = 700, 48, 4


def clusters(apart):
    """Correlated clusters; the nearer they are, the more components matter to a point."""
    draw = np.random.default_rng(1)
    shape = draw.normal(size=(K, D, D)) / np.sqrt(D) + np.eye(D)[None]
    label = draw.integers(K, size=N)
    x = apart * draw.normal(size=(K, D))[label]
    x = x + np.einsum("nij,nj->ni", shape[label if apart else 0 * label], draw.normal(size=(N, D)))
    return x.astype(np.float32), np.eye(K, dtype=np.float32)[label]


@pytest.mark.parametrize("covariance", ["full", "low_rank"])
@pytest.mark.parametrize("apart", [0.0, 0.3, 5.0])
def test_a_fit_that_skips_is_the_dense_fit(covariance, apart):
    x, start = clusters(apart)
    sparse, dense = (
        gmm.fit(
            jax.random.key(0),
            x,
            K,
            6,
            0.0,
            covariance,
            rank=3,
            responsibilities=start,
            regularization=1e-2,
            skip=skip,
        )
        for skip in (True, False)
    )
    np.testing.assert_allclose(sparse[1].log_likelihood, dense[1].log_likelihood, rtol=1e-5)
    np.testing.assert_allclose(sparse[0].means, dense[0].means, atol=1e-4)
    np.testing.assert_allclose(sparse[0].weights, dense[0].weights, atol=1e-6)


@pytest.mark.parametrize("covariance", ["full", "low_rank"])
def test_the_bound_is_never_below_and_only_the_negligible_is_left_out(covariance):
    x, start = clusters(1.0)
    options = {"rank": 3, "responsibilities": start, "regularization": 1e-2, "skip": True}
    mixture, _ = gmm.fit(jax.random.key(0), x, K, 6, 0.0, covariance, **options)
    density = mixture.covariance.density(mixture.means)
    exact, upper = (
        jax.vmap(lambda part, f=f: f(part, jnp.asarray(x)))(density.parts)
        for f in (density.exact, density.upper)
    )
    assert np.all(upper >= exact - 1e-4 * np.abs(exact))
    margin = pruning.negligible(N, 0.1)
    dense = np.asarray(mixture.joint()(jnp.asarray(x)))
    found = np.asarray(pruning.joint_of_few(mixture, margin)(jnp.asarray(x)))
    left_out = np.isinf(found)
    assert 0 < left_out.mean() <= 1 - 1 / K
    np.testing.assert_allclose(found[~left_out], dense[~left_out], rtol=1e-5)
    assert np.all((dense < dense.max(axis=0) - margin + 1e-2)[left_out])
    # The largest mass that a component could lose, were every point at the margin.
    assert N * np.exp(-margin) <= 0.1 * np.finfo(np.float32).eps


def test_skipping_can_be_vmapped():
    x, start = (jnp.asarray(array) for array in clusters(5.0))

    def run(start):
        fitted = gmm.fit(
            jax.random.key(0), x, K, 6, 0.0, responsibilities=start, regularization=1e-2, skip=True
        )
        return fitted[1].log_likelihood

    both = jax.vmap(run)(jnp.stack([start, start[::-1]]))
    np.testing.assert_allclose(both[0], run(start), rtol=1e-5)
    np.testing.assert_allclose(both[1], run(start[::-1]), rtol=1e-5)


@pytest.mark.parametrize(
    "first, weight", [(0.0, 1e8), (1e5, 1e-5), (1e4, 1e-7)], ids=["heavy", "far", "light"]
)
def test_a_point_far_from_every_component_stays_finite(first, weight):
    """There log densities are so large that the margin is lost in rounding."""
    x = np.random.default_rng(0).normal(size=(500, 48)).astype(np.float32)
    x[:160] += 5
    x[160:320] -= 5
    x[0] += first
    weights = np.ones(500, np.float32)
    weights[0] = weight
    _, trace = gmm.fit(jax.random.key(0), x, 3, 4, 0.0, weights=weights, skip=True)
    assert np.isfinite(np.asarray(trace)).all()


def test_a_fit_of_an_array_that_a_jitted_function_closes_over():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(60, 3)), jnp.float32)
    inside = jax.jit(lambda key: gmm.fit(key, x, 2, 3, 0.0)[1].log_likelihood)(jax.random.key(0))
    outside = gmm.fit(jax.random.key(0), x, 2, 3, 0.0)[1].log_likelihood
    np.testing.assert_allclose(inside, outside, rtol=1e-5)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"num_active": 0}, "num_active must be at least 1, found 0"),
        ({"chunk": -5}, "chunk must be at least 1, found -5"),
        ({"num_components": 2.5}, "num_components must be a whole number, found 2.5"),
        ({"regularization": 0.0}, "regularization must be positive, found 0.0"),
        ({"regularization": float("nan")}, "regularization must be positive, found nan"),
        ({"weights": np.full(60, 1e38)}, "weights go up to 1e[+]38"),
    ],
)
def test_arguments_that_make_no_sense_are_named(fields, words):
    x = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.raises(DataError, match=words):
        gmm.fit(jax.random.key(0), x, **{"num_components": 2, **fields})
