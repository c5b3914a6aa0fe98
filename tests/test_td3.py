"""The policy's equations by hand, its batches, and a problem where z decides the best action."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.small_data import counter_dataset

from zsrl_jax import acting, networks, td3
from zsrl_jax.data import Dataset, fit_normalizer, to_device
from zsrl_jax.data.sampling import draw_ahead, draw_transitions
from zsrl_jax.exploration import rnd
from zsrl_jax.settings import fields as defaults
from zsrl_jax.tasks import SAMPLERS, Uniform
from zsrl_jax.training.loop import make_loop
from zsrl_jax.types import Spec


def test_target_takes_the_smaller_critic():
    next_q = jnp.array([[1.0, 5.0], [2.0, 3.0]])
    target = td3.td_target(jnp.array([10.0, 20.0]), jnp.array([0.5, 0.0]), next_q)
    np.testing.assert_allclose(target, [10.5, 20.0])


def test_pessimism_goes_from_the_mean_of_the_critics_to_the_smaller():
    q = jnp.array([[1.0, 5.0], [2.0, 3.0]])
    np.testing.assert_allclose(td3.cautious(q, 1.0), [1.0, 3.0])
    np.testing.assert_allclose(td3.cautious(q, 0.0), [1.5, 4.0])
    np.testing.assert_allclose(td3.cautious(q, 0.5), [1.25, 3.5])
    psi = jnp.stack([q, 10 * q], axis=-1)  # [2, batch, 2], its value is the first entry
    target = td3.successor_target(jnp.zeros((2, 2)), jnp.ones(2), psi, q, 0.0)
    np.testing.assert_allclose(target, [[1.5, 15.0], [4.0, 40.0]])


def test_targets_over_three_steps_by_hand():
    """The rewards of three steps, then the value there; fewer where the episode ends before."""
    data = counter_dataset([5, 3])  # obs = 1000 episode + row
    store = to_device(data, fit_normalizer(data, "none"))
    store = store._replace(discount=store.discount.at[1, 2].set(0.0))  # the second ends for good
    drawn = draw_ahead(jax.random.key(0), store, 400, 3, 0.5)
    seen = set()
    for k in range(400):
        episode, step = int(drawn.start.episode[k]), int(drawn.start.step[k])
        steps = min(3, [5, 3][episode] - step)
        seen.add((episode, step))
        reached = 1000 * episode + step + np.arange(1, steps + 1)
        np.testing.assert_allclose(drawn.reached[k, :steps, 0], reached)
        np.testing.assert_allclose(drawn.weight[k], [0.5**i if i < steps else 0 for i in range(3)])
        assert drawn.start.next_obs[k, 0] == reached[-1] and drawn.start.obs[k, 0] == reached[0] - 1
        ends = episode == 1 and step + steps == 3
        assert drawn.start.discount[k] == (0 if ends else 0.5 ** (steps - 1))
    assert len(seen) == 8


def test_one_step_ahead_is_the_plain_transition(noise_dataset):
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    plain = draw_transitions(jax.random.key(3), store, 50)
    drawn = draw_ahead(jax.random.key(3), store, 50, 1, 0.9)
    chex.assert_trees_all_equal(drawn.start, plain)
    np.testing.assert_array_equal(drawn.reached[:, 0], plain.next_obs)


@pytest.mark.parametrize("horizon", [1, 4])
def test_the_label_sums_discounted_rewards_of_the_states_reached(noise_dataset, horizon):
    section = defaults.get_config("cheetah", "fb", "uniform").policy
    section.update({"num_tasks": 2, "per_task": 5, "horizon": horizon, "discount": 0.8})
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    weight = jax.random.normal(jax.random.key(1), (4, 3))
    tasks, mean = Uniform(jnp.asarray(1.0), jnp.zeros(3)), jnp.arange(3.0)
    data = td3.PolicyData(store, None, weight, mean, tasks)
    table = data._replace(phi=store.obs @ weight)
    parts = section, lambda w, obs: obs @ w, SAMPLERS["uniform"]
    batches = [td3.make_sample(*parts)(jax.random.key(2), part) for part in (data, table)]
    chex.assert_trees_all_close(*batches, rtol=1e-5)  # by table or on the fly
    batch = batches[0]
    for k in range(10):
        episode, step = int(batch.transition.episode[k]), int(batch.transition.step[k])
        rows = noise_dataset.obs[episode, step + 1 : min(step + horizon, 20) + 1]
        phi = rows @ np.asarray(weight) - np.asarray(mean)
        total = sum(0.8**i * p for i, p in enumerate(phi))
        np.testing.assert_allclose(batch.phi[k], total, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(batch.reward[k], total @ np.asarray(batch.z[k // 5]), atol=1e-4)


def test_critic_loss_by_hand():
    assert td3.critic_loss(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([0.0, 0.0])) == 2.5 + 12.5


def test_actor_loss_by_hand():
    q = jnp.array([[1.0, 4.0], [2.0, -3.0]])  # min: 1, -3; mean |q|: 2.5
    assert td3.actor_loss(q, jnp.array(7.5), 0.0) == 1.0
    assert td3.actor_loss(q, jnp.array(7.5), 0.2) == pytest.approx(1.0 / 2.5 + 0.2 * 7.5)


def test_successor_loss_by_hand():
    psi = jnp.array([[[1.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [3.0, 4.0]]])
    target = jnp.zeros((2, 2))
    assert td3.successor_loss(psi, target) == (5 + 0) / 2 + (0 + 25) / 2


def test_the_successor_target_times_z_is_the_target():
    keys = jax.random.split(jax.random.key(0), 4)
    phi, z = (jax.random.normal(key, (5, 3)) for key in keys[:2])
    next_psi = jax.random.normal(keys[2], (2, 5, 3))
    discount = jax.random.uniform(keys[3], (5,))
    next_q = td3.q_value(next_psi, z, "successor")
    target = td3.successor_target(phi, discount, next_psi, next_q)
    y = td3.td_target(jnp.sum(phi * z, axis=-1), discount, next_q)
    np.testing.assert_allclose(jnp.sum(target * z, axis=-1), y, rtol=1e-5)


def test_no_gradient_into_the_successor_target():
    def loss(phi, next_psi):
        next_q = jnp.sum(next_psi, axis=-1)
        target = td3.successor_target(phi, jnp.ones(2), next_psi, next_q)
        return td3.successor_loss(jnp.ones((2, 2, 3)), target)

    for gradient in jax.grad(loss, argnums=(0, 1))(jnp.zeros((2, 3)), jnp.zeros((2, 2, 3))):
        assert not np.any(gradient)


def test_heads():
    psi = jnp.array([[[1.0, 2.0]], [[3.0, 4.0]]])
    z = jnp.array([[10.0, 1.0]])
    np.testing.assert_allclose(td3.q_value(psi, z, "successor"), [[12.0], [34.0]])
    np.testing.assert_allclose(td3.q_value(psi, z, "scalar"), [[1.0], [3.0]])


def test_no_gradient_into_target_or_reward():
    def loss(q, reward, next_q):
        return td3.critic_loss(q, td3.td_target(reward, jnp.ones(2), next_q))

    args = jnp.ones((2, 2)), jnp.ones(2), jnp.zeros((2, 2))
    gradient = jax.grad(loss, argnums=(0, 1, 2))(*args)
    assert [bool(np.any(g)) for g in gradient] == [False, False, False]  # q equals the target
    gradient = jax.grad(loss, argnums=(0, 1, 2))(jnp.zeros((2, 2)), *args[1:])
    assert [bool(np.any(g)) for g in gradient] == [True, False, False]


def tiny(**fields):
    config = defaults.get_config("cheetah", "fb", "uniform").policy
    config.update({"width": 32, "num_tasks": 4, "per_task": 8} | fields)
    return config


def policy_data(dataset, dim=3, table=True):
    store = to_device(dataset, fit_normalizer(dataset, "none"))
    weight = jnp.asarray(
        np.random.default_rng(0).normal(size=(dataset.spec.obs_dim, dim)), jnp.float32
    )
    phi = store.obs @ weight if table else None
    tasks = Uniform(jnp.asarray(dim**0.5), jnp.zeros(dim))
    return td3.PolicyData(store, phi, weight, jnp.arange(float(dim)), tasks)


def test_batch_holds_tasks_times_transitions_and_rewards_the_state_reached(noise_dataset):
    config = tiny()
    sample = td3.make_sample(config, lambda w, obs: obs @ w, SAMPLERS["uniform"])
    data = policy_data(noise_dataset)
    batch = sample(jax.random.key(0), data)
    assert batch.z.shape == (4, 3) and len(np.unique(batch.z[:, 0])) == 4
    z = np.repeat(batch.z, 8, axis=0)
    reached = np.asarray(batch.transition.next_obs @ data.encoder) - np.arange(3.0)
    np.testing.assert_allclose(batch.reward, np.sum(reached * z, axis=1), rtol=1e-4, atol=1e-5)


def test_features_by_table_and_on_the_fly_are_the_same(noise_dataset):
    sample = td3.make_sample(tiny(), lambda w, obs: obs @ w, SAMPLERS["uniform"])
    one, other = (
        sample(jax.random.key(0), policy_data(noise_dataset, table=table))
        for table in (True, False)
    )
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_policy_delay_holds_the_actor_still_between_its_turns(noise_dataset):
    config = tiny(policy_delay=2)
    sample = td3.make_sample(config, lambda w, obs: obs @ w, SAMPLERS["uniform"])
    policy = td3.make(config, noise_dataset.spec, 3, sample)
    state = jax.jit(policy.init)(jax.random.key(0))
    batch = jax.jit(sample)(jax.random.key(1), policy_data(noise_dataset))
    moved, update = [], jax.jit(policy.update)
    for step in range(4):
        new, _ = update(state, batch, jax.random.key(2), step)
        pairs = zip(
            jax.tree.leaves(new.params["actor"]),
            jax.tree.leaves(state.params["actor"]),
            strict=True,
        )
        moved.append(any(bool(np.any(a != b)) for a, b in pairs))
        state = new
    assert moved == [True, False, True, False]


@pytest.mark.parametrize("head", ["successor", "scalar"])
def test_probe_two_states_where_z_fixes_the_best_action(head):
    """The next state is the action's sign and phi(s) = (s, 1): the best action is sign z_0."""
    draw = np.random.default_rng(0)
    action = draw.uniform(-1, 1, (8, 50, 1)).astype(np.float32)
    obs = np.zeros((8, 51, 1), np.float32)
    obs[:, 1:] = np.sign(action)
    dataset = Dataset(obs, action, np.ones((8, 50), np.float32), np.full(8, 50, np.int32))
    config = tiny(learning_rate=1e-3, discount=0.5, head=head, num_tasks=16)
    phi = lambda params, obs: jnp.concatenate([obs, jnp.ones_like(obs)], axis=-1)  # noqa: E731
    sample = td3.make_sample(config, phi, SAMPLERS["uniform"])
    policy = td3.make(config, Spec(1, 1), 2, sample)
    store = to_device(dataset, fit_normalizer(dataset, "none"))
    tasks = Uniform(jnp.asarray(2**0.5), jnp.zeros(2))
    data = td3.PolicyData(store, None, None, jnp.zeros(2), tasks)
    loop = jax.jit(make_loop(policy.sample, policy.update, 600))
    state, metrics = loop(jax.jit(policy.init)(jax.random.key(0)), jax.random.key(1), data, 0)
    angle = np.array([0.3, 0.8, -0.3, -0.8])  # away from z_0 = 0
    z = 2**0.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    z = np.concatenate([z, z * [-1, 1]]).astype(np.float32)
    for state_value in (-1.0, 1.0):
        obs = np.full((8, 1), state_value, np.float32)
        chosen = np.asarray(policy.act(acting.params_of(config, state), obs, z))[:, 0]
        np.testing.assert_array_equal(np.sign(chosen), np.sign(z[:, 0]))
    assert np.isfinite(float(metrics["policy/critic_loss"]))


def test_annealed_rate_ends_at_zero():
    config = tiny(learning_rate=1e-3, updates=10)
    assert td3.learning_rate(config, 1) == 1e-3
    config.anneal = True
    rate = td3.learning_rate(config, 2)  # five turns of a step taken every second update
    assert [float(rate(turn)) for turn in (0, 5)] == pytest.approx([1e-3, 0.0])


def test_averaged_actor_acts_and_lags_behind(noise_dataset):
    config = tiny(actor_average=0.25)
    sample = td3.make_sample(config, lambda w, obs: obs @ w, SAMPLERS["uniform"])
    policy = td3.make(config, noise_dataset.spec, 3, sample)
    state = jax.jit(policy.init)(jax.random.key(0))
    batch = jax.jit(sample)(jax.random.key(1), policy_data(noise_dataset))
    new, _ = jax.jit(policy.update)(state, batch, jax.random.key(2), 0)
    start, online, average = (
        jax.tree.leaves(tree)[1]
        for tree in (state.params["actor"], new.params["actor"], acting.params_of(config, new))
    )
    np.testing.assert_allclose(average, 0.75 * start + 0.25 * online, rtol=1e-5, atol=1e-7)
    assert np.any(online != start)
    plain = jax.jit(td3.make(tiny(), noise_dataset.spec, 3, sample).init)(jax.random.key(0))
    assert acting.params_of(tiny(), plain) is plain.params["actor"]


@pytest.mark.parametrize(("head", "width"), [("successor", 3), ("scalar", 1)])
def test_head_decides_the_width_of_the_critic(head, width, noise_dataset):
    policy = td3.make(tiny(head=head), noise_dataset.spec, 3, lambda key, data: None)
    critic = jax.eval_shape(policy.init, jax.random.key(0)).params["critic"]
    assert sorted(leaf.shape[-1] for leaf in jax.tree.leaves(critic))[:4] == [width] * 4


def test_default_batch_is_32_tasks_with_64_transitions_each(noise_dataset):
    config = defaults.get_config("cheetah", "fb", "uniform").policy
    sample = td3.make_sample(config, lambda w, obs: obs @ w, SAMPLERS["uniform"])
    batch = sample(jax.random.key(0), policy_data(noise_dataset))
    assert len(np.unique(batch.z, axis=0)) == 32 and batch.reward.shape == (2048,)


def test_metrics_are_named_by_their_stage(noise_dataset):
    """The explorer and the policy share TD3's steps; each names what it tells."""
    nets = td3.Nets(networks.actor(4, 0, 2, 8), networks.twin(4, 2, 0, 1, 8), "scalar")
    key = jax.random.key(0)
    params = {"actor": nets.actor.init(key), "critic": nets.critic.init(key)}
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    batch = draw_transitions(key, store, 5)
    batch = td3.PolicyBatch(batch, jnp.zeros((5, 0)), jnp.arange(5.0))
    steps = td3.make_critic_step(nets, tiny(), "explore"), td3.make_actor_step(nets, 0.0, "explore")
    for step, part in zip(steps, ("critic", "actor"), strict=True):
        _, metrics = step(params[part], params, params, batch, key)
        assert all(name.startswith("explore/") for name in metrics)
    assert set(rnd.SHOWN) - {"explore/error"} <= set(
        steps[0](params["critic"], params, params, batch, key)[1]
    )


def test_the_critic_bootstraps_from_its_target_at_the_online_actors_noisy_action(noise_dataset):
    config = tiny(noise=0.5, noise_clip=0.1)
    nets = td3.Nets(networks.actor(4, 3, 2, 8), networks.twin(4, 2, 3, 3, 8), "successor")
    keys = jax.random.split(jax.random.key(0), 6)
    params, target = (
        {"actor": nets.actor.init(a), "critic": nets.critic.init(b)}
        for a, b in (keys[:2], keys[2:4])
    )
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    rows = draw_transitions(keys[4], store, 6)
    rows = rows._replace(discount=jnp.array([1.0, 1, 0, 1, 0.5, 1]))
    z, reward = jax.random.normal(keys[5], (6, 3)), jnp.arange(6.0)
    key = jax.random.key(9)
    loss, _ = td3.make_critic_step(nets, config)(
        params["critic"], params, target, td3.PolicyBatch(rows, z, reward), key
    )
    noise = np.clip(0.5 * np.asarray(jax.random.normal(jax.random.clone(key), (6, 2))), -0.1, 0.1)
    action = np.asarray(nets.actor.apply(params["actor"], rows.next_obs, z)) + noise
    action = np.clip(action, -1, 1)
    ahead = np.asarray(nets.critic.apply(target["critic"], rows.next_obs, action, z))
    now = np.asarray(nets.critic.apply(params["critic"], rows.obs, rows.action, z))
    expected = 0.0
    for i in range(6):
        least = min(ahead[k, i] @ np.asarray(z)[i] for k in range(2))
        y = i + config.discount * float(rows.discount[i]) * least
        expected += sum((now[k, i] @ np.asarray(z)[i] - y) ** 2 for k in range(2)) / 6
    assert loss == pytest.approx(expected, rel=1e-4)
