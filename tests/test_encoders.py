"""Encoder losses against independent numpy values; what is stopped stays stopped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import base
from zsrl_jax.data import fit_normalizer, to_device
from zsrl_jax.encoders import ENCODERS, fb, losses


def small(encoder):
    config = base.get_config("cheetah", encoder, "uniform").encoder
    config.update({"dim": 4, "hidden": (8,), "batch": 6})
    if "width" in config:
        config.width = 8
    return config


def test_means_on_and_off_the_diagonal():
    matrix = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    assert losses.off_diagonal_mean(matrix) == pytest.approx((2 + 3 + 4 + 6 + 7 + 8) / 6)
    assert losses.diagonal_mean(matrix) == pytest.approx(5.0)


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


def test_fb_loss_has_no_gradient_into_the_target():
    draw = np.random.default_rng(1)
    args = [draw.normal(size=s).astype(np.float32) for s in ((2, 4, 3), (4, 3), (2, 4, 3), (4, 3))]
    gradient = jax.grad(lambda *a: fb.fb_loss(*a, jnp.ones(4))[0], argnums=(0, 1, 2, 3))(*args)
    assert [bool(np.any(g)) for g in gradient] == [True, True, False, False]


def test_fb_features_are_backward_times_inverse_second_moment(noise_dataset):
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    encoder = fb.make(small("fb"), noise_dataset.spec)
    params = encoder.init(jax.random.key(0)).params
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
    state = encoder.init(jax.random.key(0))
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
    expected = losses.off_diagonal_mean(gram**2) - 2 * losses.diagonal_mean(gram)
    assert losses.orthonormality_loss(jnp.asarray(phi)) == pytest.approx(float(expected), rel=1e-5)
