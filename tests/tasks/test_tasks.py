"""Occupancies by hand, the law of sub-trajectories, and samplers that stay on the sphere."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zsrl_jax import gmm, prompts
from zsrl_jax.settings import fields as defaults
from zsrl_jax.tasks import SAMPLERS, Behaviour, centre_of, occupancy, samplers
from zsrl_jax.tasks.occupancy import SubTrajectory


def behaviour(phi, length=None):
    phi = jnp.asarray(phi, jnp.float32)
    length = jnp.full(phi.shape[0], phi.shape[1] - 1) if length is None else jnp.asarray(length)
    return Behaviour(lambda episode: phi[episode], length, phi.shape[-1])


def section(**fields):
    config = defaults.get_config("cheetah", "fb", "btd").tasks
    config.update({"num_subtrajectories": 400, "num_components": 3, "num_iters": 10} | fields)
    return config


PHI = np.random.default_rng(1).normal(size=(6, 31, 5)) + [2.0, 0.0, 0.0, 0.0, 0.0]


@functools.cache
def fitted(name, radius="sqrt_d", alpha=0.5):
    config = section(radius=radius, alpha=alpha)
    return SAMPLERS[name].fit(jax.random.key(0), behaviour(PHI), config)


DRAW = {name: jax.jit(sampler.sample, static_argnums=2) for name, sampler in SAMPLERS.items()}


def drawn(name, key, num=64, **fields):
    return np.asarray(DRAW[name](jax.random.key(key), fitted(name, **fields), num))


def direction(psi, radius=5**0.5):
    return radius * psi / np.linalg.norm(psi, axis=-1, keepdims=True)


def is_row_of(z, pool):
    """Tell for each z whether it is one of the pool's rows."""
    return np.abs(z[:, None] - pool[None]).max(axis=-1).min(axis=1) < 1e-4


def test_means_of_the_best_pieces_by_hand():
    """Under z of the first piece the first and the third earn most: 2 and 1.5 of 2, 0, 1.5."""
    mean = jnp.array([[2.0, 0.0], [0.0, 1.0], [1.5, 1.5]])
    z = jnp.array([[1.0, 0.0], [0.0, 1.0], [0.5**0.5, 0.5**0.5]])
    found = occupancy.best_means(z, mean, 2, 1.0)
    between = np.array([[1 + 0.5**0.5, 0.5**0.5], [0.5**0.5, 1 + 0.5**0.5]])
    np.testing.assert_allclose(found[:2], direction(between, 1.0), rtol=1e-6)
    np.testing.assert_allclose(occupancy.best_means(z, mean, 1, 1.0)[1], z[2], rtol=1e-6)
    np.testing.assert_allclose(
        occupancy.best_means(z, mean, 9, 1.0)[0], direction(between.sum(0), 1.0), rtol=1e-6
    )


@pytest.mark.parametrize("center", [True, False])
def test_tasks_are_made_as_prompts_are_answered(center):
    """Each task is what `prompts.best_behaviours` answers to the piece's own vector."""
    config = section(behaviours=7, center=center)
    pieces = occupancy.draw_pieces(jax.random.key(3), behaviour(PHI), config, 60)
    own, centre = occupancy.task_vectors(behaviour(PHI), pieces, section(center=center))
    found, _ = occupancy.task_vectors(behaviour(PHI), pieces, config)
    mean = np.asarray(occupancy.mean_features(behaviour(PHI), pieces, config.discount))
    size = np.linalg.norm(mean - (0 if centre is None else np.asarray(centre)), axis=1)
    own = np.asarray(own, np.float64)
    wanted = [prompts.best_behaviours(z, own, size, 7) for z in own]
    np.testing.assert_allclose(found, direction(np.array(wanted)), rtol=1e-4, atol=1e-5)


def test_occupancy_by_hand():
    phi = np.array([[[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [9.0, 9.0]]])
    cut = SubTrajectory(jnp.array([0, 0]), jnp.array([0, 1]), jnp.array([3, 2]))
    psi = occupancy.occupancies(behaviour(phi), cut, 0.5)
    np.testing.assert_allclose(psi, [[1 + 0.25 * 2, 0.5], [0.5 * 2, 1.0]])
    mean = occupancy.mean_features(behaviour(phi), cut, 0.5)
    np.testing.assert_allclose(mean, np.asarray(psi) / [[1.75], [1.5]], rtol=1e-6)
    mean = occupancy.mean_features(behaviour(phi), cut, 1.0)
    np.testing.assert_allclose(mean, [[1.0, 1 / 3], [1.0, 0.5]], rtol=1e-6)


def test_occupancies_against_plain_sums():
    draw = np.random.default_rng(0)
    phi = draw.normal(size=(5, 41, 3))
    cut = occupancy.draw_subtrajectories(jax.random.key(0), jnp.full(5, 40), 120, 1)
    psi = occupancy.occupancies(behaviour(phi), cut, 0.99)
    for e, s, n, got in zip(*(np.asarray(x) for x in (*cut, psi)), strict=True):
        expected = sum(0.99**t * phi[e, s + t] for t in range(n))
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_subtrajectories_fit_and_lengths_are_uniform():
    length = jnp.array([10, 4])
    cut = jax.device_get(occupancy.draw_subtrajectories(jax.random.key(0), length, 6000, 2))
    longest = np.asarray(length)[cut.episode]
    assert (cut.length >= 2).all() and (cut.start >= 0).all()
    assert (cut.start + cut.length <= longest).all()
    np.testing.assert_allclose(np.mean(cut.episode), 0.5, atol=0.03)
    share = np.bincount(cut.length[cut.episode == 0], minlength=11)[2:] / np.sum(cut.episode == 0)
    np.testing.assert_allclose(share, 1 / 9, atol=0.025)
    starts = cut.start[(cut.episode == 0) & (cut.length == 9)]
    np.testing.assert_allclose(np.mean(starts), 0.5, atol=0.12)


def test_no_subtrajectory_is_longer_than_asked():
    length = jnp.array([10, 2])
    cut = jax.device_get(occupancy.draw_subtrajectories(jax.random.key(0), length, 6000, 1, 4))
    for episode, longest in ((0, 4), (1, 2)):  # an episode may be shorter than that
        share = np.bincount(cut.length[cut.episode == episode], minlength=5)[1:] / 3000
        np.testing.assert_allclose(share[:longest], 1 / longest, atol=0.03)
        assert not share[longest:].any()
    assert (cut.start + cut.length <= np.asarray(length)[cut.episode]).all()
    assert cut.start[cut.episode == 0].max() == 9
    fixed = occupancy.draw_subtrajectories(jax.random.key(0), length, 50, 3, 2)  # min above max
    assert set(np.asarray(fixed.length).tolist()) == {2, 3}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("radius", ["sqrt_d", "unit"])
def test_samples_lie_on_the_sphere_and_follow_the_key(name, radius):
    z = drawn(name, 1, radius=radius)
    expected = {"sqrt_d": 5**0.5, "unit": 1.0}[radius]
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), expected, rtol=1e-5)
    np.testing.assert_array_equal(z, drawn(name, 1, radius=radius))
    assert not np.allclose(z, drawn(name, 2, radius=radius))


@pytest.mark.parametrize("name", SAMPLERS)
def test_no_sampler_uses_a_key_twice(name):
    params = fitted(name)
    with jax.debug_key_reuse(True):
        jax.jit(SAMPLERS[name].sample, static_argnums=2)(jax.random.key(1), params, 3)


def test_uniform_covers_all_directions():
    z = drawn("uniform", 0, 20_000)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=0.04)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(5), atol=0.04)  # radius^2 / d = 1


def test_full_traj_draws_every_whole_episode_alike():
    length = np.array([30, 12, 30, 7, 30, 30])
    seen = behaviour(PHI, length)
    params = samplers.fit_full_traj(jax.random.key(0), seen, section())
    z = np.asarray(samplers.sample_pool(jax.random.key(1), params, 6000))
    weight = 0.99 ** np.arange(31)
    whole = [weight[:n] @ PHI[e, :n] for e, n in enumerate(length)]  # s_0, ..., s_{T-1}
    near = np.abs(z[:, None] - direction(np.stack(whole))[None]).max(axis=-1) < 1e-4
    np.testing.assert_allclose(near.mean(axis=0), 1 / 6, atol=0.02)


def test_subtraj_draws_pieces_of_the_data_alike():
    pool = np.asarray(occupancy.behaviour_tasks(jax.random.key(0), behaviour(PHI), section()))
    z = drawn("subtraj", 1, 8000)
    kept, times = np.unique(pool, axis=0, return_counts=True)  # pieces of one state can coincide
    seen, count = np.unique(z, axis=0, return_counts=True)
    np.testing.assert_array_equal(seen, kept)
    assert (count / times).min() > 3 and (count / times).max() < 50  # 20 each on average


def test_btd_is_the_mixture_of_the_pieces_tasks():
    key_piece, key_fit = jax.random.split(jax.random.key(0))
    pool = np.asarray(occupancy.behaviour_tasks(key_piece, behaviour(PHI), section()))
    expected, _ = gmm.fit(key_fit, pool, 3, num_iters=10, tolerance=section().tolerance)
    np.testing.assert_allclose(fitted("btd").mixture.means, expected.means, atol=1e-4)
    z = drawn("btd", 1, 8000)
    np.testing.assert_allclose(z.mean(axis=0), pool.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(z.std(axis=0)[1:], pool.std(axis=0)[1:], atol=0.06)
    assert not is_row_of(z[:500], pool).any()


def test_btd_stays_where_the_data_is():
    """Features in the half space phi_0 > 0: no behaviour points backwards, and so no task does."""
    draw = np.random.default_rng(2)
    phi = draw.normal(size=(20, 31, 4))
    phi[..., 0] = 3 + np.abs(phi[..., 0])
    params = samplers.fit_btd(jax.random.key(0), behaviour(phi), section())
    z = np.asarray(samplers.sample_btd(jax.random.key(1), params, 500))
    assert (z[:, 0] > 0).mean() > 0.99
    assert 0.4 < (drawn("uniform", 1, 500)[:, 0] > 0).mean() < 0.6


def test_btd_centered_by_hand():
    """Occupancies a step, minus their mean over the pieces, projected, then the mixture."""
    key_piece, key_fit = jax.random.split(jax.random.key(0))
    cut = occupancy.draw_subtrajectories(key_piece, jnp.full(6, 30), 400, 1)
    mean = []
    for e, s, n in zip(*(np.asarray(x) for x in cut), strict=True):
        weight = 0.99 ** np.arange(n)
        mean.append(weight @ PHI[e, s : s + n] / weight.sum())
    centre = np.mean(mean, axis=0)
    params = fitted("btd_centered")
    np.testing.assert_allclose(centre_of(params), centre, rtol=1e-4, atol=1e-5)
    z = jnp.asarray(direction(np.stack(mean) - centre), jnp.float32)
    expected, _ = gmm.fit(key_fit, z, 3, num_iters=10, tolerance=section().tolerance)
    np.testing.assert_allclose(params.mixture.means, expected.means, atol=1e-2)
    np.testing.assert_allclose(params.mixture.weights, expected.weights, atol=1e-2)
    # all plain tasks point along the mean feature; the centred ones do so half of the time
    assert (drawn("btd", 1, 500)[:, 0] > 0).mean() > 0.95
    assert 0.3 < (drawn("btd_centered", 1, 500)[:, 0] > 0).mean() < 0.7
    # the pool that is kept beside an agent is centred alike
    pool = occupancy.behaviour_tasks(key_piece, behaviour(PHI), section(), centre_of(params))
    np.testing.assert_allclose(pool, z, rtol=1e-3, atol=1e-3)
    assert all(centre_of(fitted(name)) is None for name in SAMPLERS if name != "btd_centered")


@pytest.mark.parametrize("name", ["btd", "subtraj", "full_traj", "mix"])
def test_center_takes_the_mean_behaviour_out_of_every_behavioural_sampler(name):
    params = SAMPLERS[name].fit(jax.random.key(0), behaviour(PHI), section(center=True))
    assert centre_of(params) is not None
    z = np.asarray(SAMPLERS[name].sample(jax.random.key(1), params, 500))
    assert 0.2 < (z[:, 0] > 0).mean() < 0.8  # plain tasks point along the mean feature
    if name == "btd":
        chex.assert_trees_all_equal(params, fitted("btd_centered"))


def test_sizes_are_those_of_the_occupancies_behind_the_task_vectors():
    key, config = jax.random.key(3), section(center=True)
    cut = occupancy.draw_subtrajectories(key, jnp.full(6, 30), 400, 1)
    mean = np.asarray(occupancy.mean_features(behaviour(PHI), cut, config.discount))
    centre = jnp.asarray(mean.mean(axis=0))
    for c in (None, centre):
        z = np.asarray(occupancy.behaviour_tasks(key, behaviour(PHI), config, c))
        size = np.asarray(occupancy.behaviour_sizes(key, behaviour(PHI), config, c))
        shown = mean if c is None else mean - np.asarray(c)
        np.testing.assert_allclose(z * size[:, None] / 5**0.5, shown, rtol=1e-3, atol=1e-4)


def test_so_many_task_vectors_are_drawn_as_are_asked_for():
    for num in (0, 7, 3000):
        pool = occupancy.behaviour_tasks(jax.random.key(0), behaviour(PHI), section(), None, num)
        assert len(pool) == (num or section().num_subtrajectories)


@pytest.mark.parametrize(("alpha", "name"), [(0.0, "btd"), (1.0, "uniform")])
def test_mix_at_its_ends_equals_the_other_samplers_draw_for_draw(alpha, name):
    for key in (1, 2):
        np.testing.assert_array_equal(drawn("mix", key, alpha=alpha), drawn(name, key))


def test_mix_takes_each_row_from_one_of_the_two():
    z = drawn("mix", 3, 4000, alpha=0.25)
    uniform, btd = drawn("uniform", 3, 4000), drawn("btd", 3, 4000)
    from_uniform = (z == uniform).all(axis=1)
    assert (from_uniform ^ (z == btd).all(axis=1)).all()
    assert from_uniform.mean() == pytest.approx(0.25, abs=0.03)
    assert fitted("mix").trace is fitted("mix").other.trace  # what a run logs of the fit
    assert not hasattr(fitted("goal_mix"), "trace")
    # the coin says nothing of what is drawn
    np.testing.assert_allclose(uniform[from_uniform].mean(axis=0), uniform.mean(axis=0), atol=0.15)


def test_goal_mix_is_half_sphere_half_states_that_were_reached():
    z = drawn("goal_mix", 4, 1000)
    pool = np.asarray(fitted("goal_mix").other.z)
    reached = direction(PHI[:, 1:].reshape(-1, 5))  # never the reset state, row 0
    assert is_row_of(pool, reached).all() and len(pool) == 400
    is_goal = is_row_of(z, pool)
    assert is_goal.mean() == pytest.approx(0.5, abs=0.06)
    assert z[is_goal, 0].mean() > 1.0  # phi has a mean along its first axis
    assert abs(z[~is_goal].mean(axis=0)).max() < 0.2
