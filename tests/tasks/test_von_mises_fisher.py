"""Mixtures of directions: constants by hand, samples, EM that finds what is there, and no NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from zsrl_jax import gmm
from zsrl_jax.tasks import angles
from zsrl_jax.tasks import von_mises_fisher as vmf

N, D, K = 200, 5, 4
DAMAGE = {
    "none": lambda x: x,
    "one point": lambda x: np.tile(x[:1], (N, 1)),
    "two opposite points": lambda x: np.where(np.arange(N)[:, None] % 2, x[:1], -x[:1]),
    "fewer points than components": lambda x: x[np.arange(N) % 2],
    "a plane": lambda x: x * [1, 1, 0, 0, 0],
    "a line": lambda x: x * [1, 0, 0, 0, 0],
    "huge": lambda x: 1e30 * x,
    "small": lambda x: 1e-20 * x,
    "of all sizes": lambda x: x * np.logspace(-15, 15, N)[:, None],
    "half of it zero": lambda x: np.where(np.arange(N)[:, None] % 2, x, 0.0),
    "all zero": np.zeros_like,
    "a row of NaN": lambda x: np.where(np.arange(N)[:, None] == 3, np.nan, x),
    "half of it infinite": lambda x: np.where(np.arange(N)[:, None] % 2, np.inf, x),
    "all NaN": lambda x: np.full_like(x, np.nan),
    "a needle": lambda x: np.where(np.arange(N)[:, None] < 150, x[:1] + 1e-6 * x, x),
}
FITS = 1000


@jax.jit
def fit_and_judge(key, x):
    """Fit, sample and score; return what must be true of the result, by name."""
    key_fit, key_sample = jax.random.split(key)
    mixture, climb = vmf.fit(key_fit, x, K, num_iters=20)
    drawn = mixture.sample(key_sample, 8)
    parts = *mixture, climb.log_likelihood, drawn, mixture.log_prob(drawn)
    return {
        "finite": jnp.array([jnp.isfinite(part).all() for part in parts]).all(),
        "never falling": (jnp.diff(climb.log_likelihood) >= 0).all(),
        "means on the sphere": (jnp.abs(jnp.linalg.norm(mixture.means, axis=1) - 1) < 1e-4).all(),
        "weights of sum 1": jnp.abs(jnp.exp(mixture.log_weights).sum() - 1) < 1e-4,
        "all bad rows counted": climb.dropped == jnp.sum(~vmf.to_sphere(x)[1]),
    }


@pytest.mark.whole
def test_a_thousand_adversarial_fits_give_no_nan():
    wrong = []
    for seed in range(FITS):
        draw, damage = np.random.default_rng(seed), sorted(DAMAGE)[seed % len(DAMAGE)]
        x = DAMAGE[damage](draw.normal(size=(N, D)) + draw.normal(size=D) * draw.exponential(3))
        judged = fit_and_judge(jax.random.key(seed), x.astype(np.float32))
        wrong += [f"{damage}, seed {seed}: not {name}" for name, true in judged.items() if not true]
    assert not wrong, wrong


@pytest.mark.parametrize("dim", [2, 3, 5, 50, 500])
def test_constants_are_those_of_bessel_functions(dim):
    kappa = np.array([0.01, 1.0, 10.0, 100.0, 3000.0])
    order = dim / 2 - 1
    log_bessel = np.log(special.ive(order, kappa))  # times exp(-kappa)
    wanted = dim / 2 * np.log(2 * np.pi) + log_bessel - order * np.log(kappa)
    known = np.isfinite(wanted)  # Bessel functions of high order underflow
    found = angles.log_normalizer(jnp.asarray(kappa, jnp.float32), dim)
    np.testing.assert_allclose(np.asarray(found)[known], wanted[known], rtol=1e-4, atol=2e-3)
    cosine = special.ive(dim / 2, kappa) / np.maximum(special.ive(order, kappa), 1e-300)
    gap = np.asarray(angles.mean_gap(jnp.asarray(kappa, jnp.float32), dim))
    np.testing.assert_allclose(gap[known], 1 - cosine[known], rtol=2e-3)
    every = np.logspace(-3, 5, 500, dtype=np.float32)
    assert (np.diff(angles.mean_gap(jnp.asarray(every), dim)) < 1e-6).all()  # and no NaN
    back = angles.concentration(jnp.asarray(gap), dim)
    np.testing.assert_allclose(back[1:], kappa[1:], rtol=1e-2)
    assert known.sum() >= 2


@pytest.mark.parametrize(("dim", "kappa"), [(2, 3.0), (3, 20.0), (20, 5.0), (50, 400.0)])
def test_samples_have_the_angles_of_the_distribution(dim, kappa):
    mean = np.zeros(dim, np.float32)
    mean[1] = 1.0
    one = vmf.Directions(jnp.zeros(1), jnp.asarray(mean)[None], jnp.array([kappa]))
    x = np.asarray(one.sample(jax.random.key(0), 4000))
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, atol=1e-4)
    theirs = stats.vonmises_fisher(mean, kappa, seed=1).rvs(4000)
    assert stats.ks_2samp(x[:, 1], theirs[:, 1]).pvalue > 1e-3
    assert np.abs(np.delete(x, 1, axis=1).mean(axis=0)).max() < 0.06
    expected = stats.vonmises_fisher(mean, kappa).logpdf(x[:50].astype(np.float64))
    np.testing.assert_allclose(one.log_prob(x[:50]), expected, atol=2e-2)


def test_em_finds_the_mixture_that_made_the_data():
    means = np.eye(3, 6)
    draws = [
        stats.vonmises_fisher(m, k, seed=i).rvs(n)
        for i, (m, k, n) in enumerate(zip(means, (10, 40, 160), (300, 600, 900), strict=True))
    ]
    x = 7.0 * np.concatenate(draws).astype(np.float32)  # lengths do not matter
    mixture, climb = jax.jit(vmf.fit, static_argnums=2)(jax.random.key(1), x, 3)
    order = np.argsort(mixture.kappa)
    np.testing.assert_allclose(mixture.means[order], means, atol=0.1)
    np.testing.assert_allclose(mixture.kappa[order], [10, 40, 160], rtol=0.15)
    np.testing.assert_allclose(np.exp(mixture.log_weights)[order], [1 / 6, 2 / 6, 3 / 6], atol=0.03)
    assert bool(climb.converged) and (np.diff(climb.log_likelihood) >= 0).all()
    assert float(mixture.score(x)) == pytest.approx(float(climb.log_likelihood[-1]), abs=1e-3)


def test_a_projected_gaussian_is_a_density_of_directions():
    draw = np.random.default_rng(0)
    factor = np.tril(draw.normal(size=(2, 2, 2))) / 2 + np.eye(2)
    mixture = gmm.Mixture(
        jnp.log(jnp.array([0.3, 0.7])),
        jnp.asarray(draw.normal(size=(2, 2))),
        gmm.Full(jnp.asarray(factor, jnp.float32)),
    )
    angle = np.linspace(0, 2 * np.pi, 2001)[:-1]
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    density = np.exp(np.asarray(gmm.projected_log_prob(mixture, circle)))
    assert density.mean() * 2 * np.pi == pytest.approx(1.0, abs=2e-3)
    x = np.asarray(mixture.sample(jax.random.key(0), 40_000))
    turned = np.arctan2(x[:, 1], x[:, 0]) % (2 * np.pi)
    seen, _ = np.histogram(turned, bins=20, range=(0, 2 * np.pi))
    wanted = density.reshape(20, 100).mean(axis=1) * np.pi / 10
    np.testing.assert_allclose(seen / 40_000, wanted, atol=0.01)
