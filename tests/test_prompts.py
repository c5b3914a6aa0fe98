"""Prompts in closed form, against values worked by hand and identities of the method."""

import numpy as np
import pytest

from zsrl_jax import prompts
from zsrl_jax.envs import DOMAINS, relabel
from zsrl_jax.errors import DataError
from zsrl_jax.training.encoded import r2_by_task


def test_bare_least_squares_by_hand():
    phi = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 2.0]])
    reward = np.array([3.0, 4.0, 7.0])  # = 3 phi_0 + 2 phi_1 exactly
    z, strength = prompts.solve(phi, reward, 0.0)
    np.testing.assert_allclose(z, [3.0, 2.0], atol=1e-12)
    assert strength == 0.0


def test_ridge_by_hand():
    # E[phi^2] = 1, E[phi r] = 2, ridge relative to the mean eigenvalue 1: z = 2 / (1 + 3)
    z, _ = prompts.solve(np.array([[1.0], [-1.0]]), np.array([2.0, -2.0]), 3.0)
    np.testing.assert_allclose(z, [0.5], atol=1e-12)


def test_least_squares_on_whitened_features_is_fb_inference():
    draw = np.random.default_rng(0)
    backward = draw.normal(size=(400, 6)) @ draw.normal(size=(6, 6))
    reward = draw.normal(size=400)
    second_moment = backward.T @ backward / 400
    phi = backward @ np.linalg.inv(second_moment)
    z, _ = prompts.solve(phi, reward, 0.0)
    np.testing.assert_allclose(z, backward.T @ reward / 400, rtol=1e-9)


def test_moments_are_fb_s_task_vector_with_the_regression_s_r2():
    draw = np.random.default_rng(5)
    backward, reward = draw.normal(size=(300, 4)), draw.normal(size=300)
    solved = prompts.moment_vector(backward, reward, 0.0)
    expected = sum(b * r for b, r in zip(backward, reward, strict=True)) / 300
    np.testing.assert_allclose(solved.z, expected, rtol=1e-9)
    assert solved.r2 == prompts.task_vector(backward, reward, 0.0).r2


def test_auto_ridge_beats_the_bare_solution_on_collinear_features():
    draw = np.random.default_rng(1)
    basis = draw.normal(size=(3, 60))
    truth = draw.normal(size=3)

    def sample(num):
        source = draw.normal(size=(num, 3))
        return source @ basis + 1e-3 * draw.normal(size=(num, 60)), source @ truth + draw.normal(
            size=num
        )

    phi, reward = sample(80)
    fresh, answer = sample(2000)
    error = {
        r: np.mean((fresh @ prompts.solve(phi, reward, r)[0] - answer) ** 2) for r in ("auto", 0.0)
    }
    assert error["auto"] < 0.8 * error[0.0]


def test_r2_is_of_states_left_out():
    draw = np.random.default_rng(2)
    phi = draw.normal(size=(200, 100))
    assert prompts.task_vector(phi, draw.normal(size=200)).r2 < 0.2  # noise cannot be predicted
    assert prompts.task_vector(phi, phi @ np.ones(100)).r2 > 0.99


def test_goal_on_whitened_features_is_fb_s_backward_embedding():
    draw = np.random.default_rng(3)
    backward = 1.0 + draw.normal(size=(500, 4)) @ draw.normal(size=(4, 4))  # not centred
    phi = backward @ np.linalg.inv(backward.T @ backward / 500)
    np.testing.assert_allclose(prompts.goal_vector(phi, phi[7]), backward[7], rtol=1e-6)


def test_goal_and_demonstration_by_hand():
    phi = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])  # Cov = diag(2, 1/2)
    np.testing.assert_allclose(prompts.goal_vector(phi, np.array([1.0, 1.0])), [0.5, 2.0])
    shown = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    np.testing.assert_allclose(1.75 * prompts.demonstration_vector(shown, 0.5), [1.5, 0.5])


def test_the_mean_of_the_nearest_by_hand():
    tasks = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.6, 0.8]])
    z = np.array([0.1, 1.0])  # products 0.1, 1, -0.1, 0.86
    np.testing.assert_allclose(prompts.nearest_mean(z, tasks, 1), [0.0, 1.0])
    np.testing.assert_allclose(prompts.nearest_mean(z, tasks, 2), [0.3, 0.9])
    np.testing.assert_allclose(prompts.nearest_mean(z, tasks, 9), [0.15, 0.45])


def test_on_sphere_scales_and_refuses_nothing():
    np.testing.assert_allclose(prompts.on_sphere(np.array([3.0, 4.0]), 10.0), [6.0, 8.0])
    with pytest.raises(DataError, match="zero task vector"):
        prompts.on_sphere(np.zeros(3), 1.0)


def test_bad_rewards_are_named():
    with pytest.raises(DataError, match=r"shape \(3,\).*each of 4"):
        prompts.task_vector(np.ones((4, 2)), np.ones(3))
    with pytest.raises(DataError, match="not finite in 1 states"):
        prompts.task_vector(np.ones((4, 2)), np.array([1, np.nan, 0, 0]))


def test_r2_by_task_is_of_each_task_s_reward():
    draw = np.random.default_rng(4)
    physics = draw.normal(size=(400, 18))
    rewards = {task: relabel("cheetah", task, physics) for task in DOMAINS["cheetah"].tasks}
    knows = np.stack([rewards["walk"], np.ones(400)], axis=1)  # the first seed's features
    blind = draw.normal(size=(400, 2))
    r2 = r2_by_task(np.stack([knows, blind]), "cheetah", physics, 0.0)
    assert list(r2) == list(rewards)
    assert r2["walk"][0] > 0.999 and r2["walk"][1] < 0.1
    assert r2["walk_backward"][0] == prompts.task_vector(knows, rewards["walk_backward"], 0.0).r2


@pytest.fixture
def labelled():
    """Features with a mean, and a reward that they express but for some noise."""
    draw = np.random.default_rng(7)
    phi = draw.normal(size=(500, 5)) + np.array([3.0, 0, 0, -2.0, 0])
    return phi, phi @ np.array([1.0, -1.0, 0.5, 0, 2.0]) + 0.1 * draw.normal(size=500)


def test_with_an_intercept_constant_and_scale_of_a_reward_change_no_direction(labelled):
    phi, reward = labelled
    base = prompts.task_vector(phi, reward, "auto", True)
    for other in (reward + 100.0, 7.0 * reward, 0.01 * reward - 3.0):
        found = prompts.task_vector(phi, other, "auto", True)
        cosine = found.z @ base.z / np.linalg.norm(found.z) / np.linalg.norm(base.z)
        assert cosine == pytest.approx(1.0, abs=1e-9)
        assert found.r2 == pytest.approx(base.r2, abs=1e-9)
    np.testing.assert_allclose(prompts.task_vector(phi, -reward, "auto", True).z, -base.z)


def test_a_reward_that_is_linear_in_the_features_gets_its_weights(labelled):
    phi, _ = labelled
    z = np.array([0.5, -1.0, 2.0, 0.0, 1.0])
    for intercept in (True, False):
        found = prompts.task_vector(phi, phi @ z, "auto", intercept)
        np.testing.assert_allclose(found.z, z, atol=1e-8)
        assert found.r2 == pytest.approx(1.0)
    np.testing.assert_allclose(prompts.task_vector(phi, phi @ z + 9, "auto", True).z, z, atol=1e-8)


def test_without_an_intercept_a_constant_does_change_the_answer(labelled):
    phi, reward = labelled
    one, other = (prompts.task_vector(phi, reward + c, "auto").z for c in (0.0, 100.0))
    assert one @ other / np.linalg.norm(one) / np.linalg.norm(other) < 0.9


def test_the_best_behaviours_are_those_that_earn_most_by_hand():
    tasks = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-1.0, 0.0]])
    size = np.array([1.0, 9.0, 2.0, 50.0])  # z = (1, 0) earns 1, 0, 1.2 and -50
    z = np.array([1.0, 0.0])
    np.testing.assert_allclose(prompts.best_behaviours(z, tasks, size, 1), [0.6, 0.8])
    np.testing.assert_allclose(prompts.best_behaviours(z, tasks, size, 2), [0.8, 0.4])
    np.testing.assert_allclose(prompts.best_behaviours(5 * z, tasks, size, 2), [0.8, 0.4])


def test_centred_goals_differ_from_each_other(labelled):
    phi, _ = labelled
    goals = [prompts.goal_vector(phi, g, True) for g in phi[:20]]
    unit = np.stack([g / np.linalg.norm(g) for g in goals])
    assert np.abs(unit @ unit.T - np.eye(20)).mean() < 0.6
    toward = prompts.goal_vector(phi, phi[0], True)
    assert (phi[0] - phi.mean(axis=0)) @ toward > 0
