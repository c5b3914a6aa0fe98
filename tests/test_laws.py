"""What holds for every encoder and for the policy: keys and targets; seeds: test_seed_laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.learners import LEARNERS, build, equal

from zsrl_jax import td3
from zsrl_jax.settings import fields
from zsrl_jax.tasks import SAMPLERS
from zsrl_jax.training.loop import make_loop

RATE = 0.01  # of target networks, by default


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
