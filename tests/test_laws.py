"""What holds for every encoder and for the policy: seeds, chunks, keys, targets."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.learners import LEARNERS, build

from zsrl_jax import td3
from zsrl_jax.seeds import over_seeds, seed_keys, take_seed
from zsrl_jax.settings import fields
from zsrl_jax.tasks import SAMPLERS
from zsrl_jax.training.loop import make_loop, stream_keys

RATE = 0.01  # of target networks, by default


def equal(one, other):
    try:
        chex.assert_trees_all_equal(one, other)
    except AssertionError:
        return False
    return True


def trained(learner, data, keys, lengths, how="auto"):
    """Run chunks of updates for all seeds; return the state after each."""
    state = over_seeds(learner.init, (0,), how=how)(stream_keys(keys, 0))
    start, states = 0, []
    programs = {
        n: over_seeds(make_loop(learner.sample, learner.update, n), (0, 0, None, None), how=how)
        for n in set(lengths)
    }
    for length in lengths:
        state, _ = programs[length](state, stream_keys(keys, 1), data, start)
        start += length
        states.append(state)
    return states


@pytest.mark.parametrize("name", LEARNERS)
def test_seeds_and_chunks_change_nothing(name, noise_dataset):
    """A seed among many is that seed alone, chunks equal a straight run, vmap follows map."""
    learner, data = build(name, noise_dataset)
    keys = seed_keys(5, 3)
    half, many = trained(learner, data, keys, [4, 4], "map")
    alone = trained(learner, data, keys[1:2], [8], "map")[-1]
    assert equal(take_seed(many, 1), take_seed(alone, 0))
    assert not equal(take_seed(many, 0), take_seed(many, 1))
    batched = trained(learner, data, keys, [4], "vmap")[-1]
    for a, b in zip(jax.tree.leaves(half.params), jax.tree.leaves(batched.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-6)
    # keys, places and tasks are drawn the same to the bit
    draws = [over_seeds(learner.sample, (0, None), how=how)(keys, data) for how in ("map", "vmap")]
    exact = [d._replace(reward=0) if name == "policy" else d for d in draws]  # a product of floats
    assert equal(*exact)


@pytest.mark.parametrize("name", LEARNERS)
def test_no_key_is_used_twice(name, noise_dataset):
    learner, data = build(name, noise_dataset)
    with jax.debug_key_reuse(True):
        loop = jax.jit(make_loop(learner.sample, learner.update, 2))
        state = learner.init(jax.random.key(0))
        loop(state, jax.random.key(1), data, 0)


@pytest.mark.parametrize("name", LEARNERS)
def test_targets_move_only_by_the_soft_update(name, noise_dataset):
    learner, data = build(name, noise_dataset)
    state = learner.init(jax.random.key(0))
    batch = learner.sample(jax.random.key(1), data)
    new, _ = jax.jit(learner.update)(state, batch, jax.random.key(2), 0)
    for part, old in state.target_params.items():
        expected = jax.tree.map(lambda o, n: o + RATE * (n - o), old, new.params[part])
        for a, b in zip(
            jax.tree.leaves(expected), jax.tree.leaves(new.target_params[part]), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
        assert not equal(old, new.target_params[part])


def test_no_gradient_of_the_policy_reaches_the_frozen_encoder(noise_dataset):
    """The reward depends on the encoder; the critic's regression target does not pass it on."""
    _, data = build("policy", noise_dataset)
    section = fields.get_config("cheetah", "fb", "uniform").policy
    sample = td3.make_sample(section, lambda w, obs: obs @ w, SAMPLERS["uniform"])

    def reward(encoder):
        return sample(jax.random.key(1), data._replace(encoder=encoder)).reward

    def critic(encoder):
        value = reward(encoder)
        target = td3.td_target(value, jnp.ones_like(value), jnp.ones((2, value.shape[0])))
        return td3.critic_loss(jnp.zeros((2, value.shape[0])), target)

    assert bool(np.any(jax.grad(lambda w: reward(w).sum())(data.encoder)))
    assert not bool(np.any(jax.grad(critic)(data.encoder)))


def test_initial_targets_are_copies(noise_dataset):
    for name in LEARNERS:
        learner, _ = build(name, noise_dataset)
        state = learner.init(jax.random.key(0))
        for part, target in state.target_params.items():
            assert equal(target, state.params[part])
            for a, b in zip(
                jax.tree.leaves(target), jax.tree.leaves(state.params[part]), strict=True
            ):
                assert a.unsafe_buffer_pointer() != b.unsafe_buffer_pointer()
