"""Learners side by side: each learns as it would alone, on its part of every batch."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.untrained import make_agent

from zsrl_jax import acting, learner, td3
from zsrl_jax.data import fit_normalizer, to_device
from zsrl_jax.settings import fields as defaults
from zsrl_jax.tasks import SAMPLERS, Uniform
from zsrl_jax.types import LearnerState, Spec, Transition

SPEC, DIM = Spec(4, 2), 3


def make(**fields):
    config = defaults.get_config("cheetah", "fb", "uniform").policy
    config.update({"width": 8, "num_tasks": 2, "per_task": 4} | fields)
    return config, td3.make(config, SPEC, DIM, lambda key, data: None)


def draw_batch(key, number=1):
    keys, rows = jax.random.split(key, 5), 8 * number
    obs, reached = (jax.random.normal(k, (rows, 4)) for k in keys[:2])
    action = jax.random.uniform(keys[2], (rows, 2), minval=-1.0, maxval=1.0)
    z, phi = jax.random.normal(keys[3], (2 * number, DIM)), jax.random.normal(keys[4], (rows, DIM))
    ones = jnp.ones(rows)
    rows = Transition(obs, action, reached, ones, ones, ones)
    return td3.PolicyBatch(rows, z, jnp.sum(phi * jnp.repeat(z, 4, axis=0), axis=-1), phi)


def test_each_learns_as_it_would_alone_from_its_own_part_of_a_batch():
    (_, one), (_, three) = make(), make(ensemble=3)
    key, key_update, batch = jax.random.key(3), jax.random.key(4), draw_batch(jax.random.key(5), 3)
    state, metrics = three.update(three.init(key), batch, key_update, 0)
    alone = []
    pairs = zip(jax.random.split(key, 3), jax.random.split(key_update, 3), strict=True)
    for i, (start, own) in enumerate(pairs):
        part = jax.tree.map(lambda x, i=i: jnp.split(x, 3)[i], batch)
        alone.append(one.update(one.init(start), part, own, 0))
        found = jax.tree.map(lambda leaf, i=i: leaf[i], state)
        chex.assert_trees_all_close(found, alone[-1][0], rtol=1e-5, atol=1e-7)
    for name, value in metrics.items():
        mean = np.mean([np.asarray(told[name]) for _, told in alone])
        np.testing.assert_allclose(value, mean, rtol=1e-4, atol=1e-6)
    first, second = (told.params["actor"]["Dense_0"]["kernel"] for told, _ in alone[:2])
    assert not np.allclose(first, second, atol=1e-2)


def test_the_state_of_an_ensemble_is_a_learner_s_with_one_axis_more():
    (_, one), (_, two) = make(), make(ensemble=2)
    shapes = [jax.eval_shape(policy.init, jax.random.key(0)) for policy in (one, two)]
    chex.assert_trees_all_equal_structs(*shapes)
    for single, both in zip(*map(jax.tree.leaves, shapes), strict=True):
        assert both.shape == (2, *single.shape)


def test_one_learner_is_not_wrapped():
    """Saves, streams and numbers of runs without the field are what they were."""
    config, policy = make()
    assert config.ensemble == 1 and acting.learners_of(config, {"a": 1}) == [{"a": 1}]
    key = jax.random.key(0)
    key_actor, key_critic = jax.random.split(key)
    nets = td3.make_nets(config, SPEC, DIM)
    wanted = {"actor": nets.actor.init(key_actor), "critic": nets.critic.init(key_critic)}
    chex.assert_trees_all_equal(policy.init(key).params, wanted)


def test_steps_taken_seldom_are_taken_by_all():
    def loss(part, params, target, batch, key):
        return jnp.sum(part * batch), {"loss": jnp.sum(part * batch)}

    rare = learner.Step("x", loss, 0.1, every=2)
    both = learner.side_by_side(learner.make(lambda key: {"x": jnp.ones(())}, [rare], {}), 2)
    state = both.init(jax.random.key(0))
    moved = []
    for step in range(3):
        before = state.params["x"]
        state, _ = both.update(state, jnp.ones(2), jax.random.key(step), step)
        moved.append((state.params["x"] != before).tolist())
    assert isinstance(state, LearnerState) and moved == [[True, True], [False, False], [True, True]]


def test_a_batch_has_tasks_and_transitions_for_every_learner(noise_dataset):
    config, _ = make(ensemble=3)
    sample = td3.make_sample(config, lambda w, obs: obs @ w, SAMPLERS["uniform"])
    tasks = Uniform(jnp.asarray(1.0), jnp.zeros(DIM))
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    data = td3.PolicyData(store, None, jnp.ones((4, DIM)), jnp.zeros(DIM), tasks)
    batch = sample(jax.random.key(0), data)
    assert td3.batch_rows(config) == 24 and batch.reward.shape == (24,)
    assert batch.z.shape == (6, DIM) and len(np.unique(batch.z, axis=0)) == 6


@pytest.mark.parametrize("number", [2, 3])
def test_an_agent_s_action_is_one_of_its_learners(number):
    agent = make_agent(**{"policy.ensemble": number})
    obs, z = np.asarray(agent.params.prompt_obs)[:5], agent.infer(goal=agent.params.prompt_obs[9])
    taken = agent.act(obs[None], z[:, None])[0]
    nets = td3.make_nets(agent.config.policy, agent.spec, agent.z_dim)
    seen, same = agent.params.normalizer(jnp.asarray(obs)), jnp.tile(z, (5, 1))
    params = jax.tree.map(lambda leaf: leaf[0], agent.params.actor)
    each = acting.learners_of(agent.config.policy, params["actor"])
    own = np.stack([np.asarray(nets.actor.apply(one, seen, same)) for one in each])
    assert len(own) == number
    near = np.abs(own - taken[None]).max(axis=-1).min(axis=0)
    np.testing.assert_allclose(near, 0, atol=1e-5)
