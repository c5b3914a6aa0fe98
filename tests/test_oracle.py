"""The oracle: rewards of the states reached, one learner per seed and task, acting as an agent."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import zsrl_jax
from zsrl_jax import oracle
from zsrl_jax.data import Dataset, fit_normalizer, to_device
from zsrl_jax.envs import Simulator
from zsrl_jax.errors import ConfigError, DataError, TaskError
from zsrl_jax.seeds import over_seeds, seed_keys
from zsrl_jax.settings import cells
from zsrl_jax.settings import fields as defaults
from zsrl_jax.settings.checks import check
from zsrl_jax.settings.names import cell_name
from zsrl_jax.training.loop import make_loop
from zsrl_jax.types import Spec

TASKS = ("walk", "run", "walk_backward", "run_backward")


@pytest.fixture(scope="module")
def dataset():
    """Two short episodes of random actions in the simulator."""
    draw, simulator = np.random.default_rng(0), Simulator("cheetah", 2)
    obs, physics, action = [simulator.reset([0, 1])], [simulator.physics()], []
    for _ in range(60):
        action.append(draw.uniform(-1, 1, (2, 6)).astype(np.float32))
        obs.append(simulator.step(action[-1]))
        physics.append(simulator.physics())
    obs, physics, action = (np.stack(x, axis=1) for x in (obs, physics, action))
    ones, length = np.ones((2, 60), np.float32), np.full(2, 60, np.int32)
    return Dataset(obs.astype(np.float32), action, ones, length, physics, "cheetah")


def small(argument, **fields):
    config = cells.oracle_from_text(argument)
    config.policy.update({"updates": 4, "width": 8, "num_tasks": 2, "per_task": 4})
    config.update({"log_every": 2, "checkpoint_every": 2} | fields)
    return config


@pytest.fixture(scope="module")
def trained(dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("oracle")
    return zsrl_jax.train(small("cheetah,smoke", seeds=2), dataset, folder, quiet=True)


def test_a_transition_earns_the_reward_of_the_state_it_reached(dataset):
    reward = oracle.rewards("cheetah", TASKS, dataset)
    assert reward.shape == (4, 2, 60) and reward.std(axis=(1, 2)).min() > 0
    for i, task in enumerate(TASKS):  # action t leads from state t to state t + 1
        states = zsrl_jax.relabel("cheetah", task, dataset.physics)
        for t in range(60):
            np.testing.assert_allclose(reward[i, :, t], states[:, t + 1], rtol=1e-6)
        assert not np.allclose(reward[i], states[:, :-1], atol=1e-3)
    config = small("cheetah,smoke").policy
    store = to_device(dataset, fit_normalizer(dataset, "none"))
    data = oracle.OracleData(store, jnp.asarray(reward), jnp.asarray(2))
    batch = oracle.make_policy(config, dataset.spec).sample(jax.random.key(0), data)
    place = np.asarray(batch.transition.episode), np.asarray(batch.transition.step)
    np.testing.assert_array_equal(batch.reward, reward[2][place])
    np.testing.assert_array_equal(batch.transition.next_obs, dataset.obs[place[0], place[1] + 1])
    assert batch.z.shape == (8, 0)


def test_each_lane_learns_its_own_task():
    """The reward is the action, or minus the action: two learners end at opposite actions."""
    draw = np.random.default_rng(0)
    action = draw.uniform(-1, 1, (8, 50, 1)).astype(np.float32)
    obs = draw.normal(size=(8, 51, 1)).astype(np.float32)
    data = Dataset(obs, action, np.ones((8, 50), np.float32), np.full(8, 50, np.int32))
    config = defaults.get_config("cheetah", "fb", "uniform").policy
    config.update({"width": 32, "per_task": 2, "learning_rate": 1e-3, "head": "scalar"})
    policy = oracle.make_policy(config, Spec(1, 1))
    store = to_device(data, fit_normalizer(data, "none"))
    reward = jnp.stack([jnp.asarray(action[..., 0]), -jnp.asarray(action[..., 0])])
    lanes = oracle.OracleData(store, reward, jnp.arange(2))
    axes = (0, 0, oracle.OracleData(None, None, 0), None)
    loop = over_seeds(make_loop(policy.sample, policy.update, 300), axes)
    keys = seed_keys(0, 2)
    state, _ = loop(over_seeds(policy.init, (0,))(keys), keys, lanes, jnp.asarray(0))
    act = jax.vmap(policy.act, (0, None, None))
    chosen = np.asarray(act(state.params["actor"], obs[:, 0], jnp.zeros((8, 0))))
    assert (chosen[0] > 0.3).all() and (chosen[1] < -0.3).all()


@pytest.mark.whole
def test_a_task_among_others_is_that_task_alone(trained, dataset, tmp_path):
    alone = zsrl_jax.train(small("cheetah,run,smoke", seed=1), dataset, tmp_path, quiet=True)
    for one, other in zip(
        jax.tree.leaves(alone.params.actor), jax.tree.leaves(trained.params.actor), strict=True
    ):
        np.testing.assert_array_equal(one[0, 0], other[1, 1])
        assert other.shape[:2] == (2, 4)
    kernel = trained.params.actor["Dense_0"]["kernel"]
    assert len(np.unique(np.asarray(kernel)[..., 0, 0])) == 8  # no two learners are alike


def test_loaded_oracle_acts_and_scores_like_an_agent(trained, dataset):
    loaded, obs = zsrl_jax.load(trained.workdir), dataset.obs[0, 3]
    assert isinstance(loaded, oracle.Oracle) and "walk_backward" in repr(loaded)
    actions = np.stack([loaded.act(obs, loaded.infer(task)) for task in TASKS])
    assert actions.shape == (4, 2, 6) and len(np.unique(actions[..., 0])) == 8
    np.testing.assert_array_equal(actions[1], trained.act(obs, trained.infer("run")))
    z = np.stack([loaded.infer(task) for task in TASKS], axis=1)  # [seed, task, task]
    many = loaded.act(np.tile(obs, (2, 4, 1)), z)
    np.testing.assert_allclose(many, actions.swapaxes(0, 1), rtol=1e-5, atol=1e-6)
    scores = zsrl_jax.evaluate(trained.workdir, episodes=1, progress=False)
    assert scores.tasks == TASKS and scores.returns.shape == (2, 4, 1)
    assert np.isnan(scores.r2).all() and "nan" not in str(scores)


def test_an_oracle_knows_its_tasks_alone(trained):
    assert trained.task_names == TASKS
    with pytest.raises(TaskError, match="task of this oracle 'jump'"):
        trained.infer("jump")
    with pytest.raises(DataError, match="the name of one of its tasks"):
        trained.infer(goal=np.zeros(17))
    with pytest.raises(DataError, match="expected last axes 17 and 4"):
        trained.act(np.zeros(17), np.zeros((2, 3)))


def test_data_without_physics_is_refused_before_anything_is_written(dataset, tmp_path):
    blind = dataclasses.replace(dataset, physics=None)
    with pytest.raises(DataError, match="has no physics"):
        zsrl_jax.train(small("cheetah,run,smoke"), blind, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("argument", "name", "tasks", "scale"),
    [
        ("walker,run", "walker_oracle_run", ("run",), "laptop"),
        ("walker,run,walk,paper", "walker_oracle_run_walk", ("run", "walk"), "paper"),
        ("walker,smoke", "walker_oracle", ("stand", "walk", "run", "flip"), "smoke"),
        ("walker,all", "walker_oracle", ("stand", "walk", "run", "flip"), "laptop"),
    ],
)
def test_configs_name_tasks_and_scale(argument, name, tasks, scale):
    config = cells.oracle_from_text(argument)
    assert (cell_name(config), config.oracle.tasks, config.scale) == (name, tasks, scale)
    check(config)
    assert config.policy.head == "scalar" and "encoder" not in config


def test_bad_configs_are_named():
    for argument, told in (
        ("", "names no domain"),
        ("other", "unknown domain 'other'"),
        ("walker,rum", "did you mean 'run'"),
        ("walker,run,laptop,walk", r"the scale \(laptop\) comes last"),
    ):
        with pytest.raises((ConfigError, TaskError), match=told):
            cells.oracle_from_text(argument)
    for field, value in (("head", "successor"), ("kind", "own")):
        config = cells.oracle_from_text("walker,run,smoke")
        config.policy[field] = value
        with pytest.raises(ConfigError, match=f"{value}.*expected td3 and scalar"):
            check(config)
