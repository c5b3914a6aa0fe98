"""Occupancies by hand, the law of sub-trajectories, and samplers that stay on the sphere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import base
from zsrl_jax import tasks
from zsrl_jax.tasks import SAMPLERS, Behaviour, SubTrajectory


def behaviour(phi, length=None):
    phi = jnp.asarray(phi, jnp.float32)
    length = jnp.full(phi.shape[0], phi.shape[1] - 1) if length is None else jnp.asarray(length)
    return Behaviour(lambda episode: phi[episode], length, phi.shape[-1])


def section(**fields):
    config = base.get_config("cheetah", "fb", "btd").tasks
    config.update({"num_subtrajectories": 400, "num_components": 3, "num_iters": 10} | fields)
    return config


def test_occupancy_by_hand():
    phi = np.array([[[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [9.0, 9.0]]])
    pieces = SubTrajectory(jnp.array([0, 0]), jnp.array([0, 1]), jnp.array([3, 2]))
    psi = tasks.occupancies(behaviour(phi), pieces, 0.5)
    np.testing.assert_allclose(psi, [[1 + 0.25 * 2, 0.5], [0.5 * 2, 1.0]])


def test_occupancies_against_plain_sums():
    draw = np.random.default_rng(0)
    phi = draw.normal(size=(5, 41, 3))
    pieces = tasks.draw_subtrajectories(jax.random.key(0), jnp.full(5, 40), 120, 1)
    psi = tasks.occupancies(behaviour(phi), pieces, 0.99)
    for e, s, n, got in zip(*(np.asarray(x) for x in (*pieces, psi)), strict=True):
        expected = sum(0.99**t * phi[e, s + t] for t in range(n))
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_subtrajectories_fit_and_lengths_are_uniform():
    length = jnp.array([10, 4])
    pieces = jax.device_get(tasks.draw_subtrajectories(jax.random.key(0), length, 6000, 2))
    longest = np.asarray(length)[pieces.episode]
    assert (pieces.length >= 2).all() and (pieces.start >= 0).all()
    assert (pieces.start + pieces.length <= longest).all()
    np.testing.assert_allclose(np.mean(pieces.episode), 0.5, atol=0.03)
    share = np.bincount(pieces.length[pieces.episode == 0], minlength=11)[2:] / np.sum(
        pieces.episode == 0
    )
    np.testing.assert_allclose(share, 1 / 9, atol=0.025)
    starts = pieces.start[(pieces.episode == 0) & (pieces.length == 9)]
    np.testing.assert_allclose(np.mean(starts), 0.5, atol=0.12)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("radius", ["sqrt_d", "unit"])
def test_samples_lie_on_the_sphere_and_follow_the_key(name, radius):
    phi = np.random.default_rng(1).normal(size=(6, 31, 5))
    fit, sample = SAMPLERS[name]
    params = jax.jit(lambda key: fit(key, behaviour(phi), section(radius=radius)))(
        jax.random.key(0)
    )
    draw = jax.jit(lambda key, params: sample(key, params, 64))
    z = np.asarray(draw(jax.random.key(1), params))
    expected = {"sqrt_d": 5**0.5, "unit": 1.0}[radius]
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), expected, rtol=1e-5)
    np.testing.assert_array_equal(z, draw(jax.random.key(1), params))
    assert not np.allclose(z, draw(jax.random.key(2), params))


def test_uniform_covers_all_directions():
    params = tasks.fit_uniform(jax.random.key(0), behaviour(np.zeros((1, 2, 3))), section())
    z = np.asarray(tasks.sample_uniform(jax.random.key(0), params, 20_000))
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=0.04)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(3), atol=0.04)  # radius^2 / d = 1


def test_btd_stays_where_the_data_is():
    """Features in the half space phi_0 > 0: no behaviour points backwards, and so no task does."""
    draw = np.random.default_rng(2)
    phi = draw.normal(size=(20, 31, 4))
    phi[..., 0] = 3 + np.abs(phi[..., 0])
    params = tasks.fit_btd(jax.random.key(0), behaviour(phi), section())
    z = np.asarray(tasks.sample_btd(jax.random.key(1), params, 500))
    assert (z[:, 0] > 0).mean() > 0.99
    uniform = tasks.fit_uniform(jax.random.key(0), behaviour(phi), section())
    other = np.asarray(tasks.sample_uniform(jax.random.key(1), uniform, 500))
    assert 0.4 < (other[:, 0] > 0).mean() < 0.6
