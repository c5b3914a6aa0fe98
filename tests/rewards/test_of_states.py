"""Reward texts of a domain: names, tasks as texts, prompts and scores by text."""

import numpy as np
import pytest
from helpers.person import ROOT

import zsrl_jax
from zsrl_jax.envs import DOMAINS, Simulator, quantities, relabel
from zsrl_jax.errors import DataError, TaskError
from zsrl_jax.rewards import RewardTextError, quantity_columns, quantity_names, reward_function

pytestmark = pytest.mark.filterwarnings("ignore:the features hardly")


def states(domain, num=40):
    """Return states that random actions reach."""
    draw, simulator = np.random.default_rng(0), Simulator(domain, num, 1)
    simulator.reset(range(num))
    for _ in range(20):
        simulator.step(draw.uniform(-1, 1, (num, DOMAINS[domain].action_dim)))
    return simulator.physics()


@pytest.fixture(scope="module")
def agent():
    return zsrl_jax.load(ROOT / "tests/fixtures/run_0_1")


@pytest.mark.parametrize("domain", ["cheetah", "walker", "quadruped"])
def test_every_quantity_has_a_name_and_its_value(domain):
    physics = states(domain)
    columns, found = quantity_columns(domain, physics), quantities(domain, physics)
    assert tuple(columns) == quantity_names(domain)
    np.testing.assert_array_equal(columns["angular_momentum_y"], found.angular_momentum[:, 1])
    np.testing.assert_array_equal(columns["joint_speed_3"], found.joint_speed[:, 3])
    text = reward_function(domain, "speed*(height>0.5)")(physics)
    np.testing.assert_array_equal(text, found.speed * (found.height > 0.5))


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_tasks_as_texts_are_the_tasks(domain):
    physics = states(domain)
    assert set(DOMAINS[domain].texts) == set(DOMAINS[domain].tasks)
    for task, text in DOMAINS[domain].texts.items():
        told = reward_function(domain, text)(physics)
        np.testing.assert_allclose(told, relabel(domain, task, physics), rtol=1e-12, atol=1e-14)


def test_a_text_prompts_as_its_function_does(agent):
    by_function = agent.infer(reward=lambda p: quantities("cheetah", p).height)
    np.testing.assert_array_equal(agent.infer(reward="height"), by_function)
    np.testing.assert_array_equal(agent.infer(reward="run"), agent.infer(reward=" run "))
    same = agent.infer(reward="clip(speed/10, 0, 1)")
    np.testing.assert_allclose(agent.infer(reward="run"), same, rtol=1e-5, atol=1e-6)


def test_a_wrong_text_is_told(agent):
    with pytest.raises(RewardTextError, match="character 9: unknown quantity 'sped'"):
        agent.infer(reward="height+ sped")
    with pytest.raises(
        TaskError, match="unknown cheetah task 'rum': did you mean 'run'.*over speed"
    ):
        agent.infer(reward="rum")
    with pytest.raises(DataError, match="not finite in .* of 1000 states"):
        agent.infer(reward="sqrt(speed)")


def test_scores_by_text(agent, monkeypatch):
    monkeypatch.setitem(DOMAINS, "cheetah", DOMAINS["cheetah"]._replace(episode_length=40))
    found = zsrl_jax.evaluate(
        agent, {"tall": "height", "plain": lambda p: quantities("cheetah", p).height},
        episodes=2, progress=False,
    )  # fmt: skip
    assert found.tasks == ("tall", "plain")
    assert found.notes[0] == "tall: the reward text height"
    np.testing.assert_allclose(found.returns[:, 0], found.returns[:, 1], rtol=1e-6)
    both = zsrl_jax.evaluate(agent, ["run"], episodes=2, progress=False, reward="height*2")
    assert both.notes == ("run: scored with the reward text height*2",)
