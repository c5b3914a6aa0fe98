"""Features of transitions: the same numbers in the table, on the fly, in tasks and in prompts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.untrained import make_agent

import zsrl_jax
from zsrl_jax import td3
from zsrl_jax.data import fit_normalizer, to_device
from zsrl_jax.encoders import ENCODERS, hilp
from zsrl_jax.encoders.base import reached_features, row_features
from zsrl_jax.envs import DOMAINS, Simulator
from zsrl_jax.errors import DataError
from zsrl_jax.evaluation import evaluate, start_seeds
from zsrl_jax.settings import fields
from zsrl_jax.tasks import SAMPLERS, Behaviour, Uniform, occupancy
from zsrl_jax.tasks.occupancy import SubTrajectory


@pytest.fixture
def known(noise_dataset):
    """Return hilp with networks as they are drawn, frozen, and a store."""
    config = fields.get_config("cheetah", "hilp", "uniform").encoder
    config.update({"dim": 3, "hidden": (8,), "batch": 12})
    encoder = hilp.make(config, noise_dataset.spec)
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    params = jax.jit(encoder.init)(jax.random.key(0)).params
    return encoder, encoder.freeze(jax.random.key(1), params, store), store


def test_rows_hold_what_led_to_them(known):
    encoder, frozen, store = known
    obs = store.obs[0]
    rows = np.asarray(row_features(encoder, frozen, obs))
    np.testing.assert_allclose(rows[0], 0, atol=1e-6)  # nothing leads to the reset
    led = encoder.features(frozen, obs[4:5], obs[5:6])[0]
    np.testing.assert_allclose(rows[5], led, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(reached_features(encoder, frozen, obs), rows[1:], rtol=1e-5)


def test_features_have_the_radius_on_average(known):
    encoder, frozen, store = known
    phi = np.concatenate([
        np.asarray(reached_features(encoder, frozen, obs))[: int(n)]
        for obs, n in zip(store.obs, store.length, strict=True)
    ])  # fmt: skip
    assert np.mean(np.sum(phi**2, axis=1)) == pytest.approx(3.0, rel=1e-3)


def test_rewards_are_alike_from_the_table_and_on_the_fly(known):
    encoder, frozen, store = known
    config = fields.get_config("cheetah", "fb", "uniform").policy
    config.update({"num_tasks": 4, "per_task": 5, "horizon": 3})
    sample = td3.make_sample(config, encoder.features, SAMPLERS["uniform"], True)
    table = jnp.stack([row_features(encoder, frozen, obs) for obs in store.obs])
    tasks = Uniform(jnp.asarray(3**0.5), jnp.zeros(3))
    data = td3.PolicyData(store, None, frozen, jnp.zeros(3), tasks)
    fly = sample(jax.random.key(3), data)
    kept = sample(jax.random.key(3), data._replace(phi=table))
    np.testing.assert_allclose(fly.reward, kept.reward, rtol=1e-3, atol=1e-4)
    place = int(fly.transition.episode[0]), int(fly.transition.step[0])
    steps = min(3, int(store.length[place[0]]) - place[1])
    walked = store.obs[place[0], place[1] : place[1] + steps + 1]
    phi = np.asarray(encoder.features(frozen, walked[:-1], walked[1:]))
    expected = 0.99 ** np.arange(steps) @ phi @ np.asarray(fly.z[0])
    assert float(fly.reward[0]) == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_a_piece_is_made_of_its_steps():
    phi = np.array([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]])  # of rows 0, 1, 2, 3
    seen = Behaviour(lambda e: jnp.asarray(phi, jnp.float32)[e], jnp.array([3]), 2, lag=1)
    cut = SubTrajectory(jnp.array([0, 0]), jnp.array([0, 1]), jnp.array([3, 2]))
    psi = occupancy.occupancies(seen, cut, 0.5)
    np.testing.assert_allclose(psi, [[1 + 0.25 * 2, 0.5], [1.0, 1.0]])


def test_prompts_take_transitions():
    agent = make_agent(encoder="hilp")
    before, after = (np.asarray(x) for x in (agent.params.prompt_before, agent.params.prompt_obs))
    pairs = np.stack([before, after], axis=1)
    phi = agent.features(pairs)
    assert phi.shape == (1, 400, agent.z_dim)
    agent.infer("run")
    agent.config.infer.behaviours = agent.config.infer.nearest = 0
    wanted = np.random.default_rng(0).normal(size=agent.z_dim)
    z = agent.infer(reward=(pairs, phi[0] @ wanted))[0]
    assert z @ wanted / np.linalg.norm(z) / np.linalg.norm(wanted) > 0.99
    aim = agent.infer(goal=after[3])[0]
    way = agent.features(np.stack([before, np.tile(after[3], (400, 1))], axis=1))[0].mean(axis=0)
    assert aim @ way / np.linalg.norm(aim) / np.linalg.norm(way) == pytest.approx(1.0, abs=1e-4)
    assert agent.infer(demonstration=after[:5]).shape == (1, agent.z_dim)


def test_what_is_no_transition_is_refused_in_one_line():
    agent = make_agent(encoder="hilp")
    states = np.asarray(agent.params.prompt_obs)
    with pytest.raises(DataError, match=r"expected \(n, 2, 17\): states before and after"):
        agent.infer(reward=(states, states[:, 0]))
    with pytest.raises(DataError, match="demonstration has 1 state"):
        agent.infer(demonstration=states[:1])


def test_a_task_vector_is_scored_with_its_own_reward_of_steps(monkeypatch):
    agent = make_agent(encoder="hilp")
    z, sim = agent.infer("run"), Simulator("cheetah", 1)
    obs, total = [sim.reset(start_seeds(0, 1))], 0.0
    short = DOMAINS["cheetah"]._replace(episode_length=60)  # more than a chunk of rewards
    monkeypatch.setitem(DOMAINS, "cheetah", short)
    for _ in range(60):
        obs.append(sim.step(agent.act(obs[-1][None], z[:, None])[0]))
        total += agent.features(np.stack([obs[-2], obs[-1]], axis=1))[0, 0] @ z[0]
    total -= 60 * agent.features(agent.prompt_states)[0].mean(axis=0) @ z[0]
    scores = evaluate(agent, tasks={"mine": z}, episodes=1, progress=False)
    assert scores.returns[0, 0, 0] == pytest.approx(total, rel=1e-3, abs=1e-2)
    assert "mine: a z of yours, scored with its own reward" in str(scores)


@pytest.mark.whole
def test_a_run_of_transitions_trains_and_loads(noise_dataset, tmp_path):
    config = zsrl_jax.config("other", "hilp", "von_mises_fisher", "smoke")
    config.evaluate.every = 0
    agent = zsrl_jax.train(config, noise_dataset, tmp_path, quiet=True)
    pairs = np.stack([noise_dataset.obs[:, 3], noise_dataset.obs[:, 4]], axis=1)
    again = zsrl_jax.load(tmp_path)
    np.testing.assert_array_equal(agent.features(pairs), again.features(pairs))
    np.testing.assert_array_equal(agent.params.prompt_before, again.params.prompt_before)
    z = again.infer(demonstration=noise_dataset.obs[0])
    assert again.act(noise_dataset.obs[0, 0], z).shape == (1, 2)
    logged = (tmp_path / "metrics.jsonl").read_text()
    assert "tasks/unseen_direction_log_likelihood" in logged


def test_one_encoder_asks_for_transitions(noise_dataset):
    asking = set()
    for name, module in ENCODERS.items():
        config = fields.get_config("cheetah", name, "uniform").encoder
        if module.make(config, noise_dataset.spec).of_transitions:
            asking.add(name)
    assert asking == {"hilp"}
