"""Foreign environments, in processes and in this one."""

import functools
import os
import time
from types import SimpleNamespace

import dm_control.suite
import numpy as np
import pytest

from zsrl_jax.envs import DOMAINS, External, Simulator, play, relabel
from zsrl_jax.errors import DataError, ZsrlError

CHEETAH = functools.partial(dm_control.suite.load, "cheetah", "run")


class Counter:
    """A Gymnasium-like environment: obs counts steps from the seed, the episode ends after 3."""

    action_space = SimpleNamespace(
        low=np.array([0.0, -2.0]), high=np.array([10.0, 2.0]), shape=(2,), dtype=np.float32
    )

    def reset(self, *, seed=None, options=None):
        self.seed, self.steps, self.action = seed, 0, np.zeros(2)
        return self._obs(), {}

    def step(self, action):
        assert action.dtype == np.float32
        self.steps, self.action = self.steps + 1, action
        return self._obs(), 1.5, self.steps == 3, False, {}

    def _obs(self):
        return {"place": np.array([self.seed, self.steps]), "action": self.action}


class Unlucky(Counter):
    """Fails in its second step."""

    def step(self, action):
        if self.steps:
            raise RuntimeError("out of luck")
        return super().step(action)


class Seeded:
    """A dm_env-like environment that knows its seed from its factory alone."""

    def __init__(self, seed):
        self.seed = seed

    def action_spec(self):
        return SimpleNamespace(minimum=-1.0, maximum=1.0, shape=(1,))

    def observation_spec(self):
        return SimpleNamespace(shape=(1,))

    def reset(self):
        return SimpleNamespace(observation=np.array([self.seed]))

    def step(self, action):
        return SimpleNamespace(observation=action, reward=None, last=lambda: True)


def test_dm_control_in_processes_equals_the_batch():
    seeds, draw = [3, 4, 5], np.random.default_rng(0)
    sim = Simulator("cheetah", 3)
    with External(CHEETAH, 3, num_processes=2) as env:
        assert (env.obs_dim, env.action_dim) == (17, 6)
        np.testing.assert_array_equal(env.reset(seeds), sim.reset(seeds))
        for _ in range(20):
            action = draw.uniform(-1, 1, (3, 6))
            # scaled to [-1, 1] and back: equal up to the last bit of the action
            np.testing.assert_allclose(env.step(action), sim.step(action), atol=1e-9)
            wanted = relabel("cheetah", "run", sim.physics())
            np.testing.assert_allclose(env.reward(), wanted, atol=1e-9)
        np.testing.assert_array_equal(env.reset(seeds), sim.reset(seeds))
        assert not env.blown().any() and not env.ended().any()


def test_play_adds_the_environments_reward_until_the_end():
    seen = []

    def act(obs):
        seen.append(obs.copy())
        return np.tile([1.0, 0.0], (2, 1))

    with External(Counter, 2, num_processes=0) as env:
        returns = play(env, act, [7, 8], max_steps=50, progress=False)
        assert env.ended().all()
    np.testing.assert_array_equal(returns, [4.5, 4.5])
    np.testing.assert_array_equal(seen[0], [[7, 0, 0, 0], [8, 0, 0, 0]])
    np.testing.assert_array_equal(seen[2], [[7, 2, 10, 0], [8, 2, 10, 0]])  # scaled: 0..10, -2..2
    assert len(seen) == 3


def test_a_reward_of_ones_own_replaces_theirs():
    with External(Counter, 2, num_processes=0, reward=lambda obs: obs[:, 0] + obs[:, 1]) as env:
        returns = play(env, lambda obs: np.zeros((2, 2)), [0, 10], max_steps=9, progress=False)
    np.testing.assert_array_equal(returns, [1 + 2 + 3, 11 + 12 + 13])


def test_a_factory_with_a_seed_is_called_at_each_reset():
    with External(Seeded, 2, num_processes=0) as env:
        np.testing.assert_array_equal(env.reset([5, 6]), [[5], [6]])
        env.step(np.zeros((2, 1)))
        assert env.ended().all()
        np.testing.assert_array_equal(env.reset([8, 9]), [[8], [9]])
        assert not env.ended().any()


class Deadly(Counter):
    """Takes its process with it in its second step."""

    def step(self, action):
        if self.steps:
            os._exit(1)
        return super().step(action)


class Stuck(Counter):
    """Never comes back from its second step."""

    def step(self, action):
        if self.steps:
            time.sleep(600)
        return super().step(action)


def test_a_hanging_environment_is_ended_and_told():
    with External(Stuck, 1, num_processes=1, timeout=0.5) as env:
        env.reset([0])
        env.step(np.zeros((1, 2)))
        begun = time.monotonic()
        with pytest.raises(ZsrlError, match="hangs: no answer after 0.5 s.*larger timeout"):
            env.step(np.zeros((1, 2)))
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("factory", "text"), [(Unlucky, "RuntimeError: out of luck"), (Deadly, "process .* died")]
)
def test_a_failing_environment_is_told_from_its_process(factory, text):
    with External(factory, 1, num_processes=1) as env:
        env.reset([0])
        env.step(np.zeros((1, 2)))
        with pytest.raises(ZsrlError, match=text):
            env.step(np.zeros((1, 2)))


def test_the_random_policy_scores_alike_on_both_paths():
    """A whole evaluation by hand: returns of the slow path are those of the batch."""
    action = np.random.default_rng(0).uniform(-1, 1, (30, 2, 6))
    steps = iter(action)
    with External(CHEETAH, 2, num_processes=0) as env:
        slow = play(env, lambda obs: next(steps), [0, 1], max_steps=30, progress=False)
    sim = Simulator("cheetah", 2)
    sim.reset([0, 1])
    fast = np.zeros(2)
    for a in action:
        sim.step(a)
        fast += relabel("cheetah", "run", sim.physics())
    np.testing.assert_allclose(slow, fast, atol=1e-6)
    assert DOMAINS["cheetah"].episode_length == 1000


def _discrete():
    return SimpleNamespace(action_space=SimpleNamespace(n=4), reset=None)


def _unbounded():
    space = SimpleNamespace(low=-np.inf, high=np.inf, shape=(1,))
    return SimpleNamespace(action_space=space, reset=None)


def _unseedable():
    return Seeded(0)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: External(dict, 1, num_processes=0), "dict is not an environment"),
        (lambda: External(_discrete, 1, num_processes=0), "bounded continuous action"),
        (lambda: External(_unbounded, 1, num_processes=0), "finite bounds"),
        (lambda: External(_unseedable, 1, num_processes=0).reset([1]), "a parameter 'seed'"),
        (lambda: External(lambda: Counter(), 1, num_processes=1), "num_processes=0"),
        (lambda: External(Counter(), 1), "Counter, not a factory: .* such as lambda: Counter"),
        (lambda: External(Counter, 2, num_processes=0).reset([1]), "one for each of 2"),
        (lambda: External(Counter, 1, num_processes=0).step(np.zeros(2)), r"expected \(1, 2\)"),
    ],
)
def test_bad_input_is_told(call, text):
    with pytest.raises(DataError, match=text):
        call()


def test_a_factory_that_processes_cannot_import_is_stepped_here():
    with pytest.warns(UserWarning, match="stepped one after the other in this one"):
        env = External(lambda: Counter(), 2)
    with env:
        np.testing.assert_array_equal(env.reset([1, 2])[:, 0], [1, 2])


def test_a_reward_of_the_wrong_shape_is_told():
    with External(Counter, 2, num_processes=0, reward=lambda obs: obs) as env:
        env.reset([0, 1])
        with pytest.raises(DataError, match="expected one per row"):
            env.step(np.zeros((2, 2)))
