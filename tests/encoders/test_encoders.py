"""Encoder losses against independent numpy values; what is stopped stays stopped."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zsrl_jax.data import fit_normalizer, to_device
from zsrl_jax.data.sampling import draw_transitions
from zsrl_jax.encoders import ENCODERS, byol, fb, fb_onestep, hilp, losses, lra_sr, rldp
from zsrl_jax.settings import fields as defaults


def small(encoder):
    config = defaults.get_config("cheetah", encoder, "uniform").encoder
    config.update({"dim": 4, "hidden": (8,), "batch": 6})
    if "width" in config:
        config.width = 8
    return config


def test_means_on_and_off_the_diagonal():
    matrix = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    assert losses.off_diagonal_mean(matrix) == pytest.approx((2 + 3 + 4 + 6 + 7 + 8) / 6)
    assert losses.diagonal_product(matrix, jnp.eye(3)) == pytest.approx(5.0)


def test_orthonormality_by_hand():
    phi = jnp.array([[1.0, 0.0], [1.0, 1.0]])  # G = [[1, 1], [1, 2]]
    assert losses.orthonormality_loss(phi) == pytest.approx(1.0 - 2 * 1.5)


def test_orthonormality_is_least_at_orthonormal_features():
    signs = np.array([[i, j] for i in (-1.0, 1.0) for j in (-1.0, 1.0)] * 50)  # E[phi phi^T] = I
    best = losses.orthonormality_loss(jnp.asarray(signs, jnp.float32))
    stretched = losses.orthonormality_loss(jnp.asarray(signs * [1.4, 0.2], jnp.float32))
    assert best < stretched


def test_effective_rank_counts_directions():
    draw = np.random.default_rng(0)
    flat = np.zeros((4000, 5), np.float32)
    flat[:, :2] = draw.normal(size=(4000, 2))
    assert losses.feature_health(jnp.asarray(flat))["encoder/effective_rank"] == pytest.approx(
        2, abs=0.1
    )


def test_fb_loss_against_loops_over_pairs():
    draw = np.random.default_rng(0)
    n, d = 5, 3
    forward, target_forward = draw.normal(size=(2, 2, n, d)).astype(np.float32)
    backward, target_backward = draw.normal(size=(2, n, d)).astype(np.float32)
    discount = draw.uniform(0.5, 1, n).astype(np.float32)
    expected = 0.0
    for k in range(2):
        off = 0.0
        for i in range(n):
            for j in range(n):
                if i != j:
                    ahead = min(target_forward[m, i] @ target_backward[j] for m in range(2))
                    off += (forward[k, i] @ backward[j] - discount[i] * ahead) ** 2
        expected += 0.5 * off / (n * (n - 1))
        expected -= sum(forward[k, i] @ backward[i] for i in range(n)) / n
    loss, _ = fb.fb_loss(forward, backward, target_forward, target_backward, discount)
    assert loss == pytest.approx(expected, rel=1e-5)


def test_fb_q_loss_by_hand():
    backward = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]], np.float32)
    z = np.tile(np.array([[1.0, 1.0]], np.float32), (4, 1))  # E[BB^T] = diag(1/2, 2)
    reward = np.array([2.0, -2.0, 1.0, -1.0])
    forward = np.zeros((2, 4, 2), np.float32)
    ahead = np.stack([np.ones((4, 2)), 3 * np.ones((4, 2))]).astype(np.float32)  # min: 1 + 1
    target = reward + 0.5 * 2.0
    loss = fb.q_loss(forward, ahead, backward, z, np.full(4, 0.5, np.float32))
    assert loss == pytest.approx(2 * np.mean(target**2), rel=1e-5)


@pytest.mark.parametrize(
    ("loss", "shapes", "moved"),
    [
        (lambda *a: fb.fb_loss(*a, jnp.ones(4))[0], [(2, 4, 3), (4, 3)] * 2, 2),
        (lambda *a: lra_sr.lra_sr_loss(*a, jnp.ones(4))[0], [(4, 3)] * 4, 2),
        (lambda *a: fb_onestep.fb_onestep_loss(*a, jnp.ones(4))[0], [(4, 3)] * 4, 2),
        (byol.byol_loss, [(4, 3)] * 2, 1),
        (lambda *a: rldp.rldp_loss(*a, jnp.ones((4, 2))), [(4, 2, 3)] * 2, 1),
        (lambda *a: hilp.hilp_loss(*a, jnp.ones(4), jnp.ones(4), 0.7), [(4,)] * 2, 1),
        (
            lambda *a: fb.q_loss(*a, jnp.eye(4, 3), jnp.ones((4, 3)), jnp.ones(4)),
            [(2, 4, 3)] * 2,
            1,
        ),
    ],
    ids=["fb", "lra_sr", "fb_onestep", "byol", "rldp", "hilp", "fb's q"],
)
def test_no_gradient_reaches_what_stands_still(loss, shapes, moved):
    draw = np.random.default_rng(1)
    args = [draw.normal(size=shape).astype(np.float32) for shape in shapes]
    gradient = jax.grad(loss, argnums=tuple(range(len(args))))(*args)
    assert [bool(np.any(g)) for g in gradient] == [i < moved for i in range(len(args))]


@pytest.mark.parametrize("name", ["fb", "fb_onestep"])
def test_fb_features_are_backward_times_inverse_second_moment(name, noise_dataset):
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    encoder = ENCODERS[name].make(small(name), noise_dataset.spec)
    params = jax.jit(encoder.init)(jax.random.key(0)).params
    frozen = encoder.freeze(jax.random.key(1), params, store)
    phi = np.asarray(encoder.features(frozen, noise_dataset.obs[:, 1:].reshape(-1, 4)))
    inverse = np.asarray(frozen["inverse"])
    backward = phi @ np.linalg.inv(inverse)
    second_moment = backward.T @ backward / len(backward)
    np.testing.assert_allclose(inverse @ second_moment, np.eye(4), atol=2e-2)
    np.testing.assert_allclose(np.linalg.norm(backward, axis=1), 2.0, rtol=1e-3)  # sqrt(d)


@pytest.mark.parametrize("name", ENCODERS)
def test_learning_lowers_the_loss(name, noise_dataset):
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    config = small(name)
    config.learning_rate = 1e-2
    encoder = ENCODERS[name].make(config, noise_dataset.spec)
    state = jax.jit(encoder.init)(jax.random.key(0))
    batch = encoder.sample(jax.random.key(1), store)
    update = jax.jit(encoder.update)
    seen = []
    for step in range(60):
        state, metrics = update(state, batch, jax.random.key(2), step)
        seen.append(float(metrics["encoder/loss"]))
    assert np.mean(seen[-10:]) < np.mean(seen[:10])


def test_orthonormality_equals_its_gram_matrix_form():
    phi = np.random.default_rng(3).normal(size=(7, 3)).astype(np.float32)
    gram = jnp.asarray(phi @ phi.T)
    expected = losses.off_diagonal_mean(gram**2) - 2 * jnp.mean(jnp.diagonal(gram))
    assert losses.orthonormality_loss(jnp.asarray(phi)) == pytest.approx(float(expected), rel=1e-5)


def fb_parts(dataset, **fields):
    config = small("fb")
    config.update(fields)
    nets = fb.make_nets(config, dataset.spec)
    params = fb.make(config, dataset.spec).init(jax.random.key(0)).params
    store = to_device(dataset, fit_normalizer(dataset, "none"))
    return config, nets, params, draw_transitions(jax.random.key(1), store, 6)


def test_fb_bootstraps_by_its_discount_and_that_of_the_data(noise_dataset):
    config, nets, params, batch = fb_parts(noise_dataset, noise=0.0)
    batch = batch._replace(discount=jnp.array([1.0, 0, 1, 0.5, 1, 1]))
    z = jax.random.normal(jax.random.key(2), (6, 4))
    target = {"measure": jax.tree.map(lambda x: x + 0.1, params["measure"])}
    step = fb.make_measure_step(config, nets)
    _, metrics = step(params["measure"], params, target, (batch, z), jax.random.key(3))
    action = nets.actor.apply(params["actor"], batch.next_obs, z)
    bar = target["measure"]
    ahead = np.asarray(nets.forward.apply(bar["forward"], batch.next_obs, action, z))
    reached = np.asarray(nets.backward.apply(bar["backward"], batch.next_obs))
    now = nets.forward.apply(params["measure"]["forward"], batch.obs, batch.action, z)
    phi = nets.backward.apply(params["measure"]["backward"], batch.next_obs)
    found = np.asarray(now) @ np.asarray(phi).T
    expected = -sum(found[k, i, i] / 6 for k in range(2) for i in range(6))
    for i in range(6):
        for j in set(range(6)) - {i}:
            least = min(ahead[k, i] @ reached[j] for k in range(2))
            y = config.discount * float(batch.discount[i]) * least
            expected += sum((found[k, i, j] - y) ** 2 for k in range(2)) / 60
    assert metrics["encoder/objective"] == pytest.approx(expected, rel=1e-4)


def test_fb_q_loss_moves_f_alone(noise_dataset):
    def slopes(weight):
        config, nets, params, batch = fb_parts(noise_dataset, q_weight=weight)
        z, key = jax.random.normal(jax.random.key(2), (6, 4)), jax.random.key(3)
        step = jax.grad(fb.make_measure_step(config, nets), has_aux=True)
        return step(params["measure"], params, params, (batch, z), key)[0]

    without, with_it = slopes(0.0), slopes(1.0)
    chex.assert_trees_all_close(without["backward"], with_it["backward"], rtol=1e-5, atol=1e-7)
    pairs = zip(*(jax.tree.leaves(s["forward"]) for s in (without, with_it)), strict=True)
    assert any(float(jnp.abs(a - b).max()) > 1e-3 for a, b in pairs)


def test_fb_actor_climbs_the_smaller_of_both_values(noise_dataset):
    _, nets, params, batch = fb_parts(noise_dataset)
    z = jax.random.normal(jax.random.key(2), (6, 4))
    step = fb.make_actor_step(nets)
    loss, _ = step(params["actor"], params, None, (batch, z), None)
    action = nets.actor.apply(params["actor"], batch.obs, z)
    ahead = np.asarray(nets.forward.apply(params["measure"]["forward"], batch.obs, action, z))
    value = [min(ahead[k, i] @ np.asarray(z)[i] for k in range(2)) for i in range(6)]
    assert loss == pytest.approx(-np.mean(value), rel=1e-5)
    # an update moves the actor by this loss alone: with F and B at rest, only the actor moves
    gradient = jax.grad(lambda part: step(part, params, None, (batch, z), None)[0])(params["actor"])
    assert any(bool(np.any(g)) for g in jax.tree.leaves(gradient))


def test_fb_tuned_has_a_normed_b_and_a_noisy_actor(noise_dataset):
    plain, tuned = (fb_parts(noise_dataset, backward_norm=norm) for norm in (False, True))
    assert "LayerNorm_0" not in plain[2]["measure"]["backward"]
    params, obs = tuned[2]["measure"]["backward"], np.asarray(tuned[3].obs)
    first = obs @ np.asarray(params["Dense_0"]["kernel"])
    first = (first - first.mean(axis=1, keepdims=True)) / np.sqrt(first.var(axis=1) + 1e-6)[:, None]
    out = np.tanh(first) @ np.asarray(params["Dense_1"]["kernel"])
    out *= 2 / np.linalg.norm(out, axis=1, keepdims=True)
    np.testing.assert_allclose(tuned[1].backward.apply(params, obs), out, rtol=1e-3, atol=1e-4)
    _, nets, params, batch = plain
    z, key = jax.random.normal(jax.random.key(2), (6, 4)), jax.random.key(3)
    quiet, loud = (fb.make_actor_step(nets, noise, 0.3) for noise in (0.0, 0.2))
    values = [float(step(params["actor"], params, None, (batch, z), key)[0])
              for step in (quiet, loud)]  # fmt: skip
    assert values[0] != values[1] and values[0] == pytest.approx(values[1], abs=1.0)


@pytest.mark.parametrize(("ratio", "share"), [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)])
def test_fb_tasks_are_uniform_or_states_without_gradient(ratio, share, noise_dataset):
    config, nets, params, batch = fb_parts(noise_dataset, mix_ratio=ratio)
    batch = jax.tree.map(lambda x: jnp.concatenate([x] * 50), batch)
    draw = fb.make_draw_z(config, nets)
    z = np.asarray(draw(jax.random.key(3), params, batch))
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 2.0, rtol=1e-5)
    reached = np.asarray(nets.backward.apply(params["measure"]["backward"], batch.next_obs[:6]))
    is_state = np.abs(z[:, None] - reached[None]).max(axis=-1).min(axis=1) < 1e-5
    assert is_state.mean() == pytest.approx(share, abs=0.1)
    slope = jax.grad(lambda p: jnp.sum(draw(jax.random.key(3), p, batch)))(params)
    assert not any(bool(np.any(g)) for g in jax.tree.leaves(slope))


@pytest.mark.parametrize(("radius", "norm"), [("sqrt_d", 2.0), ("unit", 1.0)])
def test_radius_is_that_of_backward_features(radius, norm, noise_dataset):
    config, _, params, batch = fb_parts(noise_dataset, radius=radius)
    own = fb.own_policy(config, noise_dataset.spec)
    frozen, actor = own.take(params)
    np.testing.assert_allclose(
        np.linalg.norm(own.features(frozen, batch.obs), axis=1), norm, rtol=1e-5
    )
    assert actor is params["actor"]
