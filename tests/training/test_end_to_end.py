"""The command line as a person uses it: a smoke run, its files, its notebook face, its errors."""

import functools
import json
import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.person import command, refused

import zsrl_jax
from zsrl_jax.encoders import fb
from zsrl_jax.envs import Simulator, suite
from zsrl_jax.errors import DataError, TaskError
from zsrl_jax.evaluation import start_seeds
from zsrl_jax.rollouts import act_together
from zsrl_jax.seeds import take_seed
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.training import data_source, metrics

ROOT = Path(__file__).parents[2]
CONFIG = "configs/cheetah_fb_btd.py:smoke"


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    done = command(
        f"--config={CONFIG}", f"--workdir={folder / 'run'}", "--config.seeds=2",
        f"--config.data.cache={folder / 'data'}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done


def test_run_prints_scale_table_and_writes_results(smoke):
    folder, done = smoke
    assert "scale: smoke (as asked); for laptop scale: --config=" in done.stdout
    for word in ("walk_backward", "random", "± seeds", "mean"):
        assert word in done.stdout
    for stage in ("collect", "encoder", "tasks", "policy", "evaluate"):
        assert stage in done.stderr  # a bar each
    results = json.loads((folder / "run" / "results.json").read_text())
    assert np.shape(results["returns"]) == (2, 4, 2) and np.shape(results["random"]) == (4, 2)
    assert results["tasks"] == ["walk", "run", "walk_backward", "run_backward"]
    assert results["scale"] == "smoke" and results["config"]["policy"]["updates"] == 60
    assert (
        results["data"]["source"].startswith("collected:")
        and results["data"]["transitions"] == 4000
    )
    assert {"jax", "mujoco", "dm_control"} <= results["versions"].keys()
    seconds = results["seconds"]
    assert seconds.keys() == {"data", "encoder", "tasks", "policy", "evaluate", "total"}
    assert all(spent > 0 for spent in seconds.values())
    assert seconds["total"] == pytest.approx(sum(seconds.values()) / 2)
    for returns in (results["returns"], results["random"]):
        assert (np.asarray(returns) >= 0).all() and (np.asarray(returns) <= 1000).all()


def test_metrics_are_json_lines_by_seed(smoke):
    folder, _ = smoke
    lines = [
        json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    steps = [line["step"] for line in lines if "policy/critic_loss" in line]
    assert steps == [20, 40, 60]
    assert all(len(line["encoder/loss"]) == 2 for line in lines if "encoder/loss" in line)
    assert list((folder / "run" / "tensorboard").glob("events*"))
    told = next(line for line in lines if "encoder/r2_walk" in line)  # once, at the encoder's end
    assert told["step"] == 60 and sum("encoder/r2_walk" in line for line in lines) == 1
    results = json.loads((folder / "run" / "results.json").read_text())
    by_task = np.array([told[f"encoder/r2_{task}"] for task in results["tasks"]])
    np.testing.assert_allclose(by_task.T, results["r2"], rtol=1e-4, atol=1e-5)
    assert "encoder: R² of the reward regression: walk " in smoke[1].stdout


@pytest.mark.whole
def test_same_command_again_trains_nothing_and_scores_the_same(smoke):
    folder, _ = smoke
    first = json.loads((folder / "run" / "results.json").read_text())
    before = (folder / "run" / "metrics.jsonl").read_text()
    done = command(
        f"--config={CONFIG}", f"--workdir={folder / 'run'}", "--config.seeds=2",
        f"--config.data.cache={folder / 'data'}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (folder / "run" / "metrics.jsonl").read_text() == before
    assert "encoder: R² of the reward regression: walk " in done.stdout  # told again all the same
    again = json.loads((folder / "run" / "results.json").read_text())
    assert again["returns"] == first["returns"] and again["random"] == first["random"]


def test_notebook_face(smoke):
    folder, _ = smoke
    agent = zsrl_jax.load(folder / "run")
    assert agent.num_seeds == 2 and agent.domain == "cheetah"
    z = agent.infer(reward="run")
    assert z.shape == (2, 8)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 8**0.5, rtol=1e-5)
    # the same reward as a function of physics, and as labelled states
    own = agent.infer(reward=lambda physics: zsrl_jax.relabel("cheetah", "run", physics))
    np.testing.assert_allclose(own, z, rtol=1e-4, atol=1e-5)
    states = np.asarray(agent.params.prompt_obs)
    reward = zsrl_jax.relabel("cheetah", "run", np.asarray(agent.params.prompt_physics))
    np.testing.assert_allclose(agent.infer(reward=(states, reward)), z, rtol=1e-4, atol=1e-5)
    for prompt in ({"goal": states[0]}, {"demonstration": states[:30]}):
        assert agent.infer(**prompt).shape == (2, 8)
    assert agent.act(states[0], z).shape == (2, 6)
    batch = agent.act(np.broadcast_to(states[:5], (2, 5, 17)), z)
    assert batch.shape == (2, 5, 6) and np.abs(batch).max() <= 1
    np.testing.assert_allclose(batch[:, 0], agent.act(states[0], z), rtol=1e-4, atol=1e-6)
    physics = np.asarray(agent.params.prompt_physics)  # the same states as prompt_obs
    np.testing.assert_allclose(states[:, :8], physics[:, 1:9], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(states[:, 8:], physics[:, 9:], rtol=1e-5, atol=1e-5)
    with pytest.raises(DataError, match="such as obs"):
        agent.act(states[:5], z)
    with pytest.raises(DataError, match="expected one state"):
        agent.infer(goal=states[:2])
    with pytest.raises(DataError, match="exactly one"):
        agent.infer(reward="run", goal=states[0])
    with pytest.raises(TaskError, match="did you mean 'run'"):
        agent.infer(reward="runn")
    with pytest.raises(DataError, match="one reward per state"):
        agent.infer(reward=lambda physics: physics)


def test_a_prompt_is_answered_by_the_nearest_tasks_of_the_data_where_asked(smoke):
    agent, other = (zsrl_jax.load(smoke[0] / "run") for _ in range(2))
    other.config.infer.nearest = 3
    own, found = agent.prompt("run"), other.prompt("run")
    for seed, tasks in enumerate(np.asarray(agent.params.tasks)):
        cosine = [float(task @ own.z[seed]) for task in tasks]
        best = sorted(range(len(tasks)), key=lambda i: -cosine[i])[:3]
        mean = sum(tasks[i] for i in best)
        np.testing.assert_allclose(
            found.z[seed], mean * agent.radius / np.linalg.norm(mean), rtol=1e-4, atol=1e-5
        )
        assert found.cosine[seed] == own.cosine[seed]  # how far the prompt itself lay
    shown = np.asarray(agent.params.prompt_obs[:5])
    np.testing.assert_array_equal(
        agent.infer(demonstration=shown), other.infer(demonstration=shown)
    )


def test_a_reward_that_the_features_hardly_express_is_answered_with_a_warning(smoke):
    agent = zsrl_jax.load(smoke[0] / "run")
    states = np.asarray(agent.params.prompt_obs)
    noise = np.random.default_rng(0).normal(size=len(states))
    with pytest.warns(UserWarning, match="hardly express this reward: R"):
        agent.infer(reward=(states, noise))
    with pytest.warns(UserWarning, match="no R"):  # too few to hold some out
        agent.infer(reward=(states[:5], noise[:5]))
    inside = agent.features(states)[0] @ np.arange(1.0, agent.z_dim + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert agent.prompt(reward=(states, inside)).r2[0] > 0.9
        agent.infer(goal=states[0])


@pytest.mark.parametrize("agent", ["that ships", "of a run"])
def test_the_readme_s_lines_run_as_shown(smoke, monkeypatch, capsys, tmp_path, agent):
    """With the agent that ships, and with the run's name in its place."""
    readme = (ROOT / "README.md").read_text()
    code = next(c for c in re.findall(r"```python\n(.*?)```", readme, re.S) if ".infer(" in c)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "cheetah_fb_btd").symlink_to(smoke[0] / "run")
    if agent == "of a run":
        code = code.replace('load("cheetah")', 'load("runs/cheetah_fb_btd")')
    names: dict = {}
    exec(code, names)
    assert names["action"].shape == ({"that ships": 1, "of a run": 2}[agent], 6)
    assert "run" in capsys.readouterr().out


def test_scores_are_those_of_the_run_and_of_a_plain_loop(smoke):
    folder, _ = smoke
    scores = zsrl_jax.evaluate(folder / "run", episodes=2, progress=False)
    results = json.loads((folder / "run" / "results.json").read_text())
    np.testing.assert_array_equal(scores.returns, results["returns"])
    np.testing.assert_array_equal(scores.random, results["random"])
    assert "walk" in str(scores) and "random" in str(scores)
    agent = zsrl_jax.load(folder / "run")
    simulator, total = Simulator("cheetah", 16), np.zeros((2, 4, 2))
    obs = simulator.reset(np.tile(start_seeds(0, 2), 8))
    z = np.stack([agent.infer(reward=task) for task in scores.tasks], axis=1)
    for _ in range(1000):
        own = obs.reshape(2, 4, 2, 17)
        action = [act_together(agent, own[:, i], z[:, i]) for i in range(4)]
        obs = simulator.step(np.stack(action, axis=1).reshape(16, 6))
        physics = simulator.physics().reshape(2, 4, 2, 18)
        for i, task in enumerate(scores.tasks):
            total[:, i] += zsrl_jax.relabel("cheetah", task, physics[:, i])
    np.testing.assert_allclose(scores.returns, total, rtol=1e-9)


@pytest.mark.whole
def test_foreign_environment_scores_like_our_simulator(smoke):
    agent = zsrl_jax.load(smoke[0] / "run")
    factory = functools.partial(suite.load, "cheetah", "walk")
    ours = zsrl_jax.evaluate(agent, ["walk"], episodes=1, progress=False)
    z = {"walk": agent.infer(reward="walk")}
    theirs = zsrl_jax.evaluate(agent, z, episodes=1, progress=False, environment=factory)
    np.testing.assert_allclose(theirs.returns, ours.returns, rtol=1e-6)
    np.testing.assert_allclose(theirs.random, ours.random, rtol=1e-6)
    still = zsrl_jax.evaluate(
        agent, z, episodes=1, progress=False, environment=factory, reward=first_of_obs
    )
    assert still.returns.shape == (2, 1, 1) and not np.allclose(still.returns, ours.returns)
    walker = functools.partial(suite.load, "walker", "walk")
    with pytest.raises(DataError, match="expected 17 and 6"):
        zsrl_jax.evaluate(agent, z, episodes=1, progress=False, environment=walker)
    with pytest.raises(DataError, match="not a factory"):
        zsrl_jax.evaluate(agent, z, environment=suite.load("cheetah", "walk"))
    with pytest.raises(DataError, match=r"expected \(2, 8\)"):
        zsrl_jax.evaluate(agent, {"walk": np.zeros(8)})


def first_of_obs(obs):
    """Reward the height of the cheetah."""
    return obs[:, 0]


@pytest.mark.whole  # equal to the last bit: with all of the compiler's optimisations
def test_interrupted_training_ends_like_an_uninterrupted_one(smoke, tmp_path, monkeypatch):
    folder, _ = smoke
    dataset = zsrl_jax.load_dataset(next((folder / "data" / "cheetah").iterdir()))
    config = get_cell("cheetah", "fb", "btd", "smoke")
    config.seed = 1  # alone here, the second of two in the run by command
    write = metrics.Log.write

    def break_off(self, step, values):
        write(self, step, values)
        if step == 60 and "policy/critic_loss" in values:
            raise KeyboardInterrupt  # after a line that no save stands behind

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(metrics.Log, "write", break_off)
        zsrl_jax.train(config, dataset, tmp_path, quiet=True)
    with pytest.raises(DataError, match="no finished agent"):
        zsrl_jax.load(tmp_path)
    agent = zsrl_jax.train(config, dataset, tmp_path, quiet=True)
    steps = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [x["step"] for x in steps if "policy/critic_loss" in x] == [20, 40, 60]
    other = zsrl_jax.load(folder / "run")
    z = other.infer(reward="walk")
    np.testing.assert_array_equal(agent.infer(reward="walk")[0], z[1])
    obs = np.linspace(-1, 1, 17)
    np.testing.assert_array_equal(agent.act(obs, z[1:])[0], other.act(obs, z)[1])


def test_one_stage_agent_is_fb_s_actor_prompted_by_moments(smoke, tmp_path):
    folder, _ = smoke
    dataset = zsrl_jax.load_dataset(next((folder / "data" / "cheetah").iterdir()))
    config = get_cell("cheetah", "fb", "goal_mix", "smoke")
    config.policy.kind, config.seeds = "own", 2
    shutil.copytree(folder / "run" / "encoder", tmp_path / "encoder")  # the encoder is the same
    agent = zsrl_jax.train(config, dataset, tmp_path, quiet=True)
    assert not (tmp_path / "tasks").exists() and not (tmp_path / "policy").exists()
    nets = fb.make_nets(config.encoder, dataset.spec)
    seed = take_seed((agent.params.encoder["backward"], agent.params.actor), 1)
    obs = agent.params.normalizer(agent.params.prompt_obs)
    backward = np.asarray(nets.backward.apply(seed[0], obs), np.float64)
    reward = zsrl_jax.relabel("cheetah", "run", np.asarray(agent.params.prompt_physics))
    moment = np.mean(backward * reward[:, None], axis=0)
    z = agent.infer(reward="run")
    np.testing.assert_allclose(z[1], 8**0.5 * moment / np.linalg.norm(moment), rtol=1e-4)
    goal = agent.infer(goal=np.asarray(agent.params.prompt_obs[0]))
    np.testing.assert_allclose(goal[1], backward[0], rtol=1e-4, atol=1e-5)
    action = agent.act(np.asarray(agent.params.prompt_obs[0]), z)
    expected = nets.actor.apply(seed[1], obs[:1], z[1:])
    np.testing.assert_allclose(action[1], expected[0], rtol=1e-4, atol=1e-6)
    # B is that of the two-stage agent on the same encoder: phi = C^-1 B
    two_stage = zsrl_jax.load(folder / "run")
    phi = two_stage.features(agent.params.prompt_obs)[1]
    inverse = np.asarray(two_stage.params.encoder["inverse"])[1]
    np.testing.assert_allclose(phi, backward @ inverse, rtol=1e-2, atol=1e-3)
    loaded = zsrl_jax.load(tmp_path)
    loaded.config.infer.nearest = 3  # there are no task vectors here to take them from
    np.testing.assert_array_equal(loaded.infer(reward="run"), z)
    scores = zsrl_jax.evaluate(tmp_path, tasks=["run"], episodes=1, progress=False)
    assert scores.returns.shape == (2, 1, 1) and np.isfinite(scores.r2).all()


@pytest.mark.whole
def test_oracle_command_leaves_results_like_any_run(smoke, tmp_path):
    folder, _ = smoke
    done = command(
        "--config=configs/oracle.py:cheetah,run,smoke", f"--workdir={tmp_path / 'run'}",
        f"--config.data.cache={folder / 'data'}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "for laptop scale: --config=configs/oracle.py:cheetah,run,laptop" in done.stdout
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    usual = json.loads((folder / "run" / "results.json").read_text())
    assert results.keys() == usual.keys() and results["tasks"] == ["run"]
    assert np.shape(results["returns"]) == (1, 1, 2)
    assert results["random"] == [usual["random"][1]]  # the same episodes
    assert results["data"] == usual["data"] and results["r2"] == [[None]]


def test_zsrl_data_without_this_domain_means_collecting(smoke, tmp_path, monkeypatch, capsys):
    folder, _ = smoke
    config = get_cell("cheetah", "fb", "btd", "smoke")
    config.data.cache = str(folder / "data")
    monkeypatch.setenv("ZSRL_DATA", str(tmp_path))
    assert data_source.open_data(config, quiet=True).num_episodes == 4
    assert "so they are collected" in capsys.readouterr().out
    monkeypatch.setenv("ZSRL_DATA", str(next((folder / "data" / "cheetah").iterdir())))
    assert data_source.open_data(config, quiet=True).num_episodes == 4
    assert capsys.readouterr().out == ""
    config.data.source = "exorl"
    monkeypatch.setenv("ZSRL_DATA", str(tmp_path))
    with pytest.raises(DataError, match="no ExORL episodes"):
        data_source.open_data(config)


def test_truncated_episode_is_one_clear_line(smoke, tmp_path):
    folder, _ = smoke
    origin = next((folder / "data" / "cheetah").iterdir()) / "buffer"
    for file in origin.glob("*.npz"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    victim = sorted(tmp_path.glob("*.npz"))[2]
    victim.write_bytes(victim.read_bytes()[:1000])
    done = refused(
        f"--config={CONFIG}", f"--config.data.path={tmp_path}", f"--workdir={tmp_path}/run"
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(f"error: episode '{victim}'")


def test_unknown_task_is_named(smoke):
    folder, _ = smoke
    with pytest.raises(TaskError, match="unknown cheetah task 'rum': did you mean 'run'"):
        zsrl_jax.evaluate(folder / "run", tasks=["rum"])
    with pytest.raises(DataError, match="does not exist"):
        zsrl_jax.load(folder / "nothing")
