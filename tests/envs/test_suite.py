"""The tasks that dm_control lacks, as ordinary dm_control environments."""

import dm_control.suite
import numpy as np
import pytest
from dm_control.rl import control

from zsrl_jax.envs import DOMAINS, suite
from zsrl_jax.errors import TaskError

OURS = [
    ("cheetah", "walk"),
    ("cheetah", "walk_backward"),
    ("cheetah", "run_backward"),
    ("walker", "flip"),
    ("quadruped", "stand"),
    ("quadruped", "jump"),
    ("point_mass_maze", "reach_bottom_right"),
]


@pytest.mark.parametrize(("domain", "task"), OURS)
def test_dm_controls_own_loader_finds_them(domain, task):
    suite.register()
    suite.register()  # twice does no harm
    env = dm_control.suite.load(domain, task, task_kwargs={"random": 0}, visualize_reward=True)
    assert type(env) is control.Environment
    env.reset()
    spec = env.action_spec()
    reached = env.step(np.zeros(spec.shape))  # colours the body by the reward
    assert 0 <= reached.reward <= 1
    assert env._step_limit == pytest.approx(1000)
    assert task in getattr(dm_control.suite, domain).SUITE.tagged("zsrl_jax")


@pytest.mark.parametrize(("domain", "task"), OURS)
def test_they_take_dm_controls_options(domain, task):
    suite.register()
    env = dm_control.suite.load(
        domain, task, {"time_limit": 0.1}, environment_kwargs={"flat_observation": True}
    )
    assert env.reset().observation["observations"].shape == (DOMAINS[domain].obs_dim,)
    while not env.step(np.zeros(env.action_spec().shape)).last():
        pass
    assert env.physics.time() == pytest.approx(0.1, abs=0.021)


@pytest.mark.parametrize(("domain", "task"), OURS)
def test_the_viewer_can_drive_them(domain, task):
    """The loop of dm_control's viewer, without its window."""
    from dm_control.viewer import runtime

    env, errors = suite.load(domain, task, random=0), []
    driver = runtime.Runtime(env, policy=lambda _: np.ones(env.action_spec().shape))
    driver.on_error += errors.append
    driver.tick(time_elapsed=0.03, paused=False)
    driver.tick(time_elapsed=0.03, paused=False)
    assert errors == []
    assert driver.state is runtime.State.RUNNING
    assert driver.get_time() > 0.03


def test_a_tasks_name_is_checked():
    with pytest.raises(TaskError, match="did you mean 'jump'"):
        suite.load("quadruped", "jumps")
