"""Scores of rewards of one's own, of any company, and in an environment of one's own."""

import dataclasses
import warnings

import numpy as np
import pytest
from helpers.person import ROOT

import zsrl_jax
from zsrl_jax.envs import DOMAINS, relabel
from zsrl_jax.errors import DataError, TaskError

pytestmark = pytest.mark.filterwarnings("ignore:the features hardly")


@pytest.fixture(scope="module")
def agent():
    return zsrl_jax.load(ROOT / "tests/fixtures/run_0_1")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setitem(DOMAINS, "cheetah", DOMAINS["cheetah"]._replace(episode_length=60))


def score(agent, tasks=None, episodes=2, **kwargs):
    return zsrl_jax.evaluate(agent, tasks, episodes=episodes, progress=False, **kwargs)


def speed(physics):
    return physics[:, 9]


def run(physics):
    return relabel("cheetah", "run", physics)


def test_a_score_does_not_depend_on_its_company(agent):
    among, alone = score(agent), score(agent, ["run"])
    np.testing.assert_array_equal(among.returns[:, 1], alone.returns[:, 0])
    np.testing.assert_array_equal(among.random[1], alone.random[0])
    more = score(agent, ["run"], episodes=13)
    np.testing.assert_array_equal(more.returns[..., :2], alone.returns)
    beside = score(agent, {"own": speed, "run": "run"})
    np.testing.assert_array_equal(beside.returns[:, 1], alone.returns[:, 0])


def test_a_function_a_text_and_a_z_are_tasks(agent):
    z = agent.infer(reward="run")
    found = score(agent, {"by_name": "run", "by_function": run, "by_z": z, "run": z})
    assert found.tasks == ("by_name", "by_function", "by_z", "run")
    np.testing.assert_allclose(found.returns[:, 0], found.returns[:, 1], rtol=1e-6)
    np.testing.assert_array_equal(found.returns[:, 0], found.returns[:, 3])
    assert found.notes == (
        "by_name: the task run",
        "by_function: your function run of physics states",
        "by_z: a z of yours, scored with its own reward phi(s).z (0: the data's mean per step)",
        "run: a z of yours, scored with the task run",
    )
    assert all(note in str(found) for note in found.notes)
    assert score(agent, ["run"]).notes == ()


def test_the_own_reward_of_a_z_by_a_plain_loop(agent):
    from zsrl_jax.envs import Simulator
    from zsrl_jax.rollouts import act_together, start_seeds

    z = agent.infer(reward="run")
    found = score(agent, {"mine": z}).returns[0, 0]
    level = (agent.features(agent.params.prompt_obs)[0] @ z[0]).mean()
    simulator, total = Simulator("cheetah", 2), np.zeros(2)
    obs = simulator.reset(start_seeds(0, 2))
    for _ in range(60):
        obs = simulator.step(act_together(agent, obs[None], z)[0])
        total += agent.features(obs)[0] @ z[0] - level
    np.testing.assert_allclose(found, total, rtol=1e-4, atol=1e-3)


def test_a_reward_alone_is_a_task_and_beside_tasks_scores_them(agent):
    alone = score(agent, reward=speed)
    assert alone.tasks == ("speed",) and "your function speed" in str(alone)
    assert score(agent, reward=lambda p: p[:, 9]).tasks == ("reward",)
    assert score(agent, [speed, "run"]).tasks == ("speed", "run")
    both = score(agent, ["run", "walk"], reward=speed)
    assert both.notes[0] == "run: scored with your function speed of physics states"
    played = score(agent, {"z": agent.infer(reward="run")}, reward=speed)
    np.testing.assert_array_equal(played.returns[:, 0], both.returns[:, 0])


@pytest.mark.parametrize(
    ("tasks", "kwargs", "told"),
    [
        ([], {}, "tasks is empty: expected names of tasks"),
        ({}, {}, "tasks is empty"),
        (["rum"], {}, "unknown cheetah task 'rum': did you mean 'run'"),
        ({"fast": "rum"}, {}, "unknown cheetah task 'rum'"),
        ({"fast": np.zeros(8)}, {}, r"z has shape \(8,\): expected \(1, 8\)"),
        ({"fast": np.full((1, 8), np.nan)}, {}, "z is not finite"),
        ({"fast": object()}, {}, "a task is a object: expected a name, a function or a z"),
        ([3], {}, "tasks holds a int without a name"),
        (3, {}, "tasks is a int: expected names"),
        (None, {"reward": 3}, "reward is a int: expected a function"),
        (["run"], {"reward": "rum"}, "unknown cheetah task 'rum'"),
        (None, {"reward": lambda p: p}, "one reward per state"),
        (["run"], {"episodes": 0}, "episodes is 0: expected at least 1"),
    ],
)
def test_bad_questions_are_one_line(agent, tasks, kwargs, told):
    with pytest.raises((DataError, TaskError), match=told) as error:
        score(agent, tasks, **kwargs)
    assert "\n" not in str(error.value)


def test_not_an_agent():
    with pytest.raises(DataError, match="agent is a int: expected an agent, or the folder"):
        zsrl_jax.evaluate(3)


class Space:
    low, high, shape, dtype = -np.ones(6), np.ones(6), (6,), np.float32


class Robot:
    """A Gymnasium-like robot of 17 numbers; a step adds 1 to the first, reward 2; ends after 4."""

    action_space, render_mode = Space, "rgb_array"

    def reset(self, *, seed=None, options=None):
        self.state = np.zeros(17)
        return self.state, {}

    def step(self, action):
        self.state = self.state + np.eye(17)[0]
        return self.state, 2.0, self.state[0] == 4, False, {}

    def render(self):
        return np.full((4, 5, 3), int(self.state[0]), np.uint8)


def place(obs):
    return obs[:, 0]


@pytest.fixture
def own(agent):
    return dataclasses.replace(agent, domain=None)


@pytest.mark.filterwarnings("ignore:processes cannot import")
def test_a_robot_of_ones_own_is_scored_by_its_own_reward_or_yours(own):
    z = own.infer(goal=np.asarray(own.params.prompt_obs)[0])
    lots = score(own, {"goal": z, "place": place}, environment=lambda: Robot())
    np.testing.assert_array_equal(lots.returns[0], [[8, 8], [1 + 2 + 3 + 4] * 2])
    np.testing.assert_array_equal(lots.random, [[8, 8], [10, 10]])
    assert lots.notes == (
        "goal: the environment's own reward", "place: your function place of observations",
    )  # fmt: skip
    alone = score(own, environment=lambda: Robot(), reward=place)
    assert alone.tasks == ("place",) and (alone.returns == 10).all()
    assert "environment" in str(alone)


def test_a_robot_of_ones_own_without_a_question_or_an_environment(own):
    with pytest.raises(DataError, match=r"knows no task of its robot: expected tasks=\{name: z\}"):
        score(own, environment=Robot)
    with pytest.raises(TaskError, match="no known domain, so there is no simulator.*environment="):
        score(own)
    with pytest.raises(DataError, match="environment is a Robot, not a factory"):
        score(own, {"goal": np.zeros((1, 8))}, environment=Robot())


def test_a_robot_of_ones_own_draws_itself(own):
    z = own.infer(goal=np.asarray(own.params.prompt_obs)[0])
    frames = zsrl_jax.render(own, z, environment=Robot)
    assert frames.shape == (5, 4, 5, 3) and frames[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(TaskError, match="no known domain.*give environment="):
        zsrl_jax.render(own, z)
    with pytest.raises(DataError, match="draws nothing"):
        zsrl_jax.render(own, z, environment=type("Blind", (Robot,), {"render_mode": None}))
    with pytest.raises(DataError, match="not a factory"):
        zsrl_jax.render(own, z, environment=Robot())


def test_prompts_that_are_not_finite_or_empty_are_told(agent):
    obs = np.asarray(agent.params.prompt_obs)[:50].copy()
    bad = obs.copy()
    bad[3, 2] = np.nan
    cases = [
        (lambda: agent.infer(reward=(bad, np.arange(50.0))), "reward's states is not finite in 1"),
        (lambda: agent.infer(reward=(obs, np.full(50, np.nan))), "reward is not finite in 50"),
        (lambda: agent.infer(goal=bad[3]), "goal is not finite in 1 of 1 states"),
        (lambda: agent.infer(demonstration=bad), "demonstration is not finite in 1 of 50"),
        (lambda: agent.infer(demonstration=obs[:0]), "demonstration is empty"),
        (lambda: agent.infer(demonstration=[]), "demonstration is empty"),
        (lambda: agent.infer(reward=(obs[:0], [])), "reward's states is empty"),
        (lambda: agent.infer(goal=[]), r"goal has shape \(0,\): expected one state, \(17,\)"),
        (lambda: agent.infer(goal="there"), r"goal has shape \(\)"),
        (lambda: agent.infer(demonstration="there"), "demonstration is a str that holds no numb"),
        (lambda: agent.infer(reward=3), "reward is a int: expected a task's name, a text"),
        (lambda: agent.infer(reward=lambda p: np.full(len(p), np.inf)), "reward is not finite"),
        (lambda: agent.infer(reward=lambda p: np.zeros(len(p))), "reward is 0 on every state"),
        (lambda: agent.act(bad[3], agent.infer(goal=obs[0])), "obs with 1 value"),
        (lambda: agent.act(obs[0], np.full((1, 8), np.inf)), r"z with 8 value\(s\)"),
        (lambda: agent.act(3.0, agent.infer(goal=obs[0])), r"act got obs \(\)"),
        (lambda: agent.act("left", agent.infer(goal=obs[0])), "obs is a str"),
        (lambda: agent.act(obs[0], None), "act got obs|z is a NoneType|not finite"),
    ]
    for call, told in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(DataError, match=told):
                call()


def test_states_far_from_the_data_are_answered_with_a_warning(agent):
    obs = np.asarray(agent.params.prompt_obs)
    far = obs[0] + 100 * obs.std(axis=0)
    for prompt in ({"goal": far}, {"demonstration": far[None]}):
        with pytest.warns(UserWarning, match=r"lies \d\d+ deviations outside of the data"):
            agent.infer(**prompt)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.infer(goal=obs[0])
        agent.infer(demonstration=obs[:9])


def test_a_constant_reward_is_called_constant(agent):
    with pytest.warns(UserWarning, match="reward is 3 on every state, so it prefers none"):
        agent.infer(reward=lambda physics: np.full(len(physics), 3.0))
    config = agent.config.copy_and_resolve_references()
    with config.unlocked():
        config.infer.intercept = True
    centred = dataclasses.replace(agent, config=config)
    with pytest.raises(DataError, match="reward is 3 on every state.*expected one that varies"):
        centred.infer(reward=lambda physics: np.full(len(physics), 3.0))
