"""Data of a robot that the project does not know, with terminals and episodes of any length:
trained by command, prompted by labelled states and by a goal, scored in a dm_env environment."""

import json
from pathlib import Path

import dm_env
import jax
import numpy as np
import pytest
from dm_env import specs
from helpers.person import command

import zsrl_jax
from zsrl_jax.data import Dataset, fit_normalizer, to_device
from zsrl_jax.data.sampling import draw_transitions
from zsrl_jax.data.writing import write_dataset
from zsrl_jax.errors import DataError
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.tasks.occupancy import draw_subtrajectories
from zsrl_jax.training import data_source

SMALL = ["encoder.updates=40", "policy.updates=40", "tasks.num_subtrajectories=200"]


class Cart(dm_env.Environment):
    """A point on a line that dies at 2; reward 1 while it is right of 0."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.place, self.steps = self.random.uniform(-1, 1), 0
        return dm_env.restart(self.observe())

    def step(self, action):
        self.place, self.steps = self.place + 0.3 * float(action[0]), self.steps + 1
        reward, dead = float(self.place > 0), abs(self.place) > 2
        if dead:
            return dm_env.termination(reward, self.observe())
        if self.steps == 12:
            return dm_env.truncation(reward, self.observe())
        return dm_env.transition(reward, self.observe())

    def observe(self):
        return np.array([self.place, self.place**2, 1.0], np.float32)

    def observation_spec(self):
        return specs.Array((3,), np.float32)

    def action_spec(self):
        return specs.BoundedArray((1,), np.float32, -1.0, 1.0)


@pytest.fixture(scope="module")
def cart():
    """Sixty random episodes: many end in a terminal state, the others after 12 steps."""
    env, random = Cart(), np.random.default_rng(0)
    episodes = []
    for _ in range(60):
        step, push = env.reset(), random.uniform(-1, 1)
        obs, action, reward, terminal = [step.observation], [], [], []
        while not step.last():
            action.append(np.clip(random.normal(push, 0.3, 1), -1, 1))
            step = env.step(action[-1])
            obs.append(step.observation)
            reward.append(step.reward)
            terminal.append(step.last() and step.discount == 0)
        episodes.append((obs, action, reward, terminal))
    obs, action, reward, terminal = zip(*episodes, strict=True)
    data = Dataset.from_arrays(obs, action, reward=reward, terminal=terminal)
    assert len(set(data.length)) > 3 and sum(any(ends) for ends in terminal) > 5
    return data


def test_every_draw_stays_inside_its_episode_and_terminals_have_discount_0(cart):
    store = to_device(cart, fit_normalizer(cart, "none"))
    batch = jax.device_get(draw_transitions(jax.random.key(0), store, 3000))
    assert (batch.step < cart.length[batch.episode]).all()
    dead = np.abs(batch.next_obs[:, 0]) > 2
    np.testing.assert_array_equal(batch.discount == 0, dead)
    assert dead.any() and (np.abs(batch.obs[:, 0]) <= 2).all()
    pieces = jax.device_get(draw_subtrajectories(jax.random.key(1), store.length, 3000, 1))
    assert (pieces.start + pieces.length <= cart.length[pieces.episode]).all()
    assert len(set(pieces.length.tolist())) > 3


@pytest.fixture(scope="module")
def run(cart, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cart")
    write_dataset(cart, folder / "cart.npz", "ogbench")
    done = command(
        "--config=configs/cell.py:other,fb,btd,smoke", f"--workdir={folder / 'run'}",
        f"--config.data.path={folder / 'cart.npz'}", *(f"--config.{field}" for field in SMALL),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "run", done


@pytest.mark.whole
def test_trained_by_command_without_a_simulator(run, cart):
    folder, done = run
    assert "no scores: the domain has no simulator" in done.stdout
    results = json.loads((Path(folder) / "results.json").read_text())
    assert results["returns"] == [] and results["data"]["transitions"] == cart.num_transitions
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    assert all(np.isfinite(x["policy/critic_loss"]).all() for x in lines if "policy/q" in x)


@pytest.mark.whole
def test_prompted_by_states_and_goals_and_scored_in_an_environment(run, cart):
    agent = zsrl_jax.load(run[0])
    place = cart.reached(300)
    z = agent.infer(reward=(cart.obs[place], cart.reward[place[0], place[1] - 1]))
    goal = agent.infer(goal=cart.obs[0, 1])
    assert z.shape == goal.shape == (1, 8) and np.isfinite(z).all() and np.isfinite(goal).all()
    tasks = {"right": z, "goal": goal}
    scores = zsrl_jax.evaluate(agent, tasks, episodes=2, progress=False, environment=Cart)
    assert scores.returns.shape == (1, 2, 2) and (scores.returns <= 12).all()
    with pytest.raises(DataError, match="no physics of a known domain"):
        agent.infer(reward="run")


def test_data_of_another_robot_is_refused_where_ours_is_expected(cart, tmp_path):
    config = get_cell("cheetah", "fb", "btd", "smoke")
    write_dataset(cart, tmp_path / "cart.npz", "ogbench")
    config.data.path = str(tmp_path / "cart.npz")
    with pytest.raises(DataError, match="expected cheetah .*; .* the domain is 'other'"):
        data_source.open_data(config, quiet=True)
    config = get_cell("other", "fb", "btd", "smoke")
    with pytest.raises(DataError, match="name its data by data.path"):
        data_source.open_data(config, quiet=True)
