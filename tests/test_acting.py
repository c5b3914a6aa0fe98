"""The critic's choice among actions: by hand, its laws, what it leaves on disk and in a page."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.untrained import make_agent

from zsrl_jax import acting, td3
from zsrl_jax.runs import agent_files
from zsrl_jax.settings import fields as defaults
from zsrl_jax.types import Spec
from zsrl_jax.web.networks_of import policy_layers

SPEC, DIM = Spec(4, 3), 5


def tiny(**fields):
    config = defaults.get_config("cheetah", "fb", "btd").policy
    config.update({"width": 16, "candidates": 8} | fields)
    return config


def test_all_corners_where_they_are_few_else_as_many_as_asked_each_once():
    np.testing.assert_array_equal(acting.corners(2, 10), [[-1, -1], [-1, 1], [1, -1], [1, 1]])
    many = acting.corners(12, 64)
    assert many.shape == (64, 12) and set(np.unique(many)) == {-1.0, 1.0}
    assert len(np.unique(many, axis=0)) == 64
    np.testing.assert_array_equal(many, acting.corners(12, 64))


@pytest.mark.parametrize("pessimism", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("head", ["successor", "scalar"])
def test_it_is_the_action_of_most_value_among_the_actor_s_and_the_corners(pessimism, head):
    config = tiny(pessimism=pessimism, head=head)
    policy = td3.make(config, SPEC, DIM, lambda key, data: None)
    state, draw = policy.init(jax.random.key(0)), np.random.default_rng(0)
    obs, z = (np.float32(draw.normal(size=(6, n))) for n in (SPEC.obs_dim, DIM))
    chosen = acting.make(config, SPEC, DIM)(acting.params_of(config, state), obs, z)
    nets = td3.make_nets(config, SPEC, DIM)
    own = np.asarray(nets.actor.apply(state.params["actor"], obs, z))
    for row in range(6):
        every = np.concatenate([own[row : row + 1], acting.corners(3, 8)])
        same = [np.repeat(x[row : row + 1], 9, axis=0) for x in (obs, z)]
        q = nets.value(state.params["critic"], same[0], every, same[1])
        best = every[np.argmax(td3.cautious(q, pessimism))]
        np.testing.assert_allclose(chosen[row], best, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lead", [(), (5,), (2, 3)])
def test_a_policy_without_tasks_chooses_too(lead):
    """An oracle's z has a width of 0."""
    config = tiny(head="scalar")
    state = td3.make(config, SPEC, 0, lambda key, data: None).init(jax.random.key(0))
    obs = jnp.asarray(np.random.default_rng(0).normal(size=(*lead, SPEC.obs_dim)), jnp.float32)
    act, params = acting.make(config, SPEC, 0), acting.params_of(config, state)
    action = act(params, obs, jnp.zeros((*lead, 0)))
    assert action.shape == (*lead, SPEC.action_dim)
    first = obs.reshape(-1, SPEC.obs_dim)[:1]
    alone = act(params, first, jnp.zeros((1, 0)))[0]
    np.testing.assert_allclose(action.reshape(-1, SPEC.action_dim)[0], alone, rtol=1e-5, atol=1e-6)


def test_without_candidates_the_actor_acts_and_its_tree_is_the_actor_s_alone():
    config = tiny(candidates=0)
    policy = td3.make(config, SPEC, DIM, lambda key, data: None)
    state = policy.init(jax.random.key(0))
    params = acting.params_of(config, state)
    assert params is state.params["actor"]
    obs, z = jnp.ones((2, 4)), jnp.ones((2, DIM))
    np.testing.assert_array_equal(
        acting.make(config, SPEC, DIM)(params, obs, z), policy.act(params, obs, z)
    )


@pytest.mark.parametrize("candidates", [0, 8])
def test_the_critics_of_an_ensemble_decide_together(candidates):
    """Among the actors' actions, and the corners if there are any."""
    config = tiny(candidates=candidates, ensemble=3, pessimism=0.5)
    state = td3.make(config, SPEC, DIM, lambda key, data: None).init(jax.random.key(0))
    draw, nets = np.random.default_rng(0), td3.make_nets(config, SPEC, DIM)
    obs, z = (np.float32(draw.normal(size=(6, n))) for n in (SPEC.obs_dim, DIM))
    params = acting.params_of(config, state)
    chosen = np.asarray(acting.make(config, SPEC, DIM)(params, obs, z))
    each = [jax.tree.map(lambda leaf, i=i: leaf[i], params) for i in range(3)]
    taken_from = set()
    for row in range(6):
        one = [x[row : row + 1] for x in (obs, z)]
        own = [np.asarray(nets.actor.apply(learner["actor"], *one))[0] for learner in each]
        every = np.stack([*own, *acting.corners(3, candidates)])
        same = [np.repeat(x, len(every), axis=0) for x in one]
        q = [nets.value(learner["critic"], same[0], every, same[1]) for learner in each]
        best = np.argmax(sum(np.asarray(td3.cautious(x, 0.5)) for x in q))
        np.testing.assert_allclose(chosen[row], every[best], rtol=1e-5, atol=1e-6)
        taken_from.add(int(best))
    assert len(taken_from) > 1  # not always the same learner's
    value = acting.make_value(config, SPEC, DIM)(params["critic"], obs, chosen, z)
    q = [td3.cautious(nets.value(learner["critic"], obs, chosen, z), 0.5) for learner in each]
    np.testing.assert_allclose(value, sum(q) / 3, rtol=1e-5)


@pytest.mark.parametrize("fields", [{"candidates": 16}, {"ensemble": 2}])
def test_an_agent_acts_alike_on_one_state_and_on_many_and_after_it_was_on_disk(tmp_path, fields):
    agent = make_agent(**{f"policy.{name}": value for name, value in fields.items()})
    obs = np.asarray(agent.params.prompt_obs)[:7]
    z = agent.infer(reward="run")
    many = agent.act(obs[None], z[:, None])
    assert many.shape == (1, 7, 6)
    one = np.stack([agent.act(state, z)[0] for state in obs])
    np.testing.assert_allclose(one, many[0], rtol=1e-5, atol=1e-5)
    agent_files.save(agent, tmp_path)
    again = agent_files.load(tmp_path)
    np.testing.assert_array_equal(again.act(obs[None], z[:, None]), many)


def test_a_page_gets_the_critic_and_its_candidates():
    layers = policy_layers(make_agent(**{"policy.candidates": 16}), 0)
    assert layers["candidates"].shape == (16, 6)
    assert {"actor0/Dense_0/bias", "critic0/Dense_2/bias"} <= set(layers)
    assert not [name for name in policy_layers(make_agent(), 0) if name.startswith("cri")]


def test_a_page_gets_every_learner_of_an_ensemble():
    layers = policy_layers(make_agent(**{"policy.ensemble": 2}), 0)
    assert layers["candidates"].shape == (0, 6)
    names = {f"{part}{i}/Dense_0/bias" for part in ("actor", "critic") for i in (0, 1)}
    assert names <= set(layers) and layers["actor0/Dense_0/bias"].ndim == 1
    kernels = [layers[f"actor{i}/Dense_0/kernel"] for i in (0, 1)]
    assert not np.array_equal(*kernels)
