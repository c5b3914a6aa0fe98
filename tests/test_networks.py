"""Networks do no work twice: rows of z that repeat, gradients that nobody uses, products shared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zsrl_jax import networks
from zsrl_jax.encoders import fb, losses, lra_p
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.types import Spec, Transition

OBS, ACTION, DIM, WIDTH, ROWS = 5, 3, 4, 64, 256


def noise(seed: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def flops(function, *args) -> float:
    return jax.jit(function).lower(*args).compile().cost_analysis()["flops"]


def products(function, *args) -> int:
    """Count the matrix products of the compiled program."""
    text = jax.jit(function).lower(*args).compile().as_text()
    return text.count(" dot(") + text.count("__onednn$matmul") + text.count("$gemm")


def test_dense_of_inputs_side_by_side_is_the_product_of_their_concatenation():
    net = networks.Dense(7)
    x, y = noise(0, 6, 5), noise(1, 6, 3)
    params = net.init(jax.random.key(2), x, y)
    kernel = np.asarray(params["params"]["kernel"])
    expected = np.concatenate([x, y], axis=1) @ kernel + np.asarray(params["params"]["bias"])
    np.testing.assert_allclose(net.apply(params, x, y), expected, rtol=1e-5, atol=1e-6)


def test_a_row_of_z_serves_a_run_of_states():
    obs, action, z = noise(0, 6, OBS), noise(1, 6, ACTION), noise(2, 2, DIM)
    for net, inputs in (
        (networks.actor(OBS, DIM, ACTION, WIDTH), (obs,)),
        (networks.twin(OBS, ACTION, DIM, DIM, WIDTH), (obs, action)),
    ):
        params = net.init(jax.random.key(3))
        repeated = net.apply(params, *inputs, np.repeat(z, 3, axis=0))
        np.testing.assert_allclose(net.apply(params, *inputs, z), repeated, rtol=1e-5, atol=1e-6)


def test_z_is_multiplied_once_for_its_run_of_states():
    dim = 512
    net = networks.actor(OBS, dim, ACTION, WIDTH)
    params, obs = net.init(jax.random.key(0)), noise(0, ROWS, OBS)
    few, all_rows = (flops(net.apply, params, obs, noise(1, rows, dim)) for rows in (2, ROWS))
    assert all_rows - few == pytest.approx(2 * (ROWS - 2) * dim * WIDTH, rel=0.02)


def test_a_gradient_to_the_action_costs_nothing_in_the_other_stream():
    net = networks.twin(OBS, ACTION, DIM, 1, WIDTH)
    params = net.init(jax.random.key(0))
    obs, action, z = noise(0, ROWS, OBS), noise(1, ROWS, ACTION), noise(2, ROWS, DIM)

    def value(action):
        return jnp.sum(net.apply(params, obs, action, z))

    back = flops(jax.grad(value), action) - flops(value, action)
    own_half = WIDTH // 2 * 2 * WIDTH + WIDTH * WIDTH // 2 + WIDTH * (OBS + ACTION)
    other_half = WIDTH // 2 * 2 * WIDTH
    assert 0.9 < back / (2 * ROWS * own_half) < 1 + 0.5 * other_half / own_half


def test_fb_computes_its_features_once_for_z_and_loss(monkeypatch):
    config = get_cell("cheetah", "fb", "btd", "smoke").encoder
    parts = noise(0, 64, OBS), noise(1, 64, ACTION), noise(2, 64, OBS), jnp.ones(64)
    batch = Transition(*parts, jnp.zeros(64, int), jnp.zeros(64, int))

    def count():
        encoder = fb.make(config, Spec(OBS, ACTION))
        key = jax.random.key(1)
        return products(lambda s: encoder.update(s, batch, key, 0), encoder.init(key))

    drawn, given = count(), noise(3, 64, config.dim)
    monkeypatch.setattr(fb, "make_draw_z", lambda *_: lambda *_: given)
    assert drawn == count()


@pytest.mark.parametrize(("size", "dim"), [(12, 3), (4, 6)])
def test_the_mean_square_over_pairs_is_the_same_by_either_product(size, dim):
    x, y = noise(0, size, dim), noise(1, size, dim)
    pairs = np.asarray(x) @ np.asarray(y).T
    expected = (pairs[~np.eye(size, dtype=bool)] ** 2).mean()
    np.testing.assert_allclose(losses.off_diagonal_square(x, y), expected, rtol=1e-5)
    loss, _ = lra_p.lra_p_loss(x, y)
    np.testing.assert_allclose(loss, 0.5 * expected - np.trace(pairs) / size, rtol=1e-5)


@pytest.mark.parametrize(("size", "dim"), [(12, 3), (4, 6)])
def test_the_mean_square_from_a_target_has_the_gradient_of_the_plain_sum(size, dim):
    """Also where X Y^T and T are large and nearly equal, as a successor measure and its target."""
    twins, y = 100 * noise(0, 2, size, dim), noise(1, size, dim)
    target = twins[0] @ y.T + noise(2, size, size)

    def plain(twins, y):
        error = jnp.einsum("kid,jd->kij", twins, y) - target[None]
        return (jnp.sum(error**2, (1, 2)) - jnp.einsum("kii->k", error**2)) / (size * (size - 1))

    def loss(square):
        return lambda twins, y: jnp.sum(square(twins, y) * jnp.array([1.0, 3.0]))

    def short(twins, y):
        return jax.vmap(losses.off_diagonal_error, (0, None, None))(twins, y, target)

    x, z, aim = (np.asarray(part, np.float64) for part in (twins, y, target))
    product = np.einsum("kid,jd->kij", x, z)
    off = (product - aim[None]) ** 2 * (1 - np.eye(size))[None]
    exact = off.sum(axis=(1, 2)) / (size * (size - 1))
    # each entry of X Y^T is rounded by some eps of its size, however small what is left of it
    slack = 4 * np.finfo(np.float32).eps * np.abs(product).max(axis=(1, 2)) / exact**0.5
    assert (np.abs(short(twins, y) - exact) <= (slack + 1e-6) * exact).all()
    for one, other in zip(
        jax.grad(loss(short), (0, 1))(twins, y),
        jax.grad(loss(plain), (0, 1))(twins, y),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_gradient_inwards_is_whole_and_one_outwards_is_damped_by_hand():
    x = jnp.array([3.0, 3.0, -3.0, -3.0, 0.0])
    action, back = jax.vjp(networks.tanh_with_way_back, x)
    np.testing.assert_array_equal(action, jnp.tanh(x))
    slope = 1 - np.tanh(3.0) ** 2  # 0.0099
    (found,) = back(jnp.array([2.0, -2.0, -2.0, 2.0, 2.0]))  # descent: in, out, in, out, either
    np.testing.assert_allclose(found, [2.0, -2.0 * slope, -2.0, 2.0 * slope, 2.0], rtol=1e-5)


@pytest.mark.parametrize(("way_back", "returns"), [(True, True), (False, False)])
def test_an_action_at_its_bound_finds_back_to_what_the_loss_wants(way_back, returns):
    """Descent on (a - 0.5)^2 from a = 1, as float32 has it: the plain tanh has no slope there."""
    net = networks.actor(OBS, 0, 1, WIDTH, way_back)
    obs, no_z = jnp.ones((8, OBS)), jnp.zeros((8, 0))
    params = net.init(jax.random.key(0))
    (last,) = [part for part in params.values() if part.get("bias", jnp.zeros(0)).shape == (1,)]
    last["bias"] = last["bias"] + 20.0
    assert float(net.apply(params, obs, no_z).min()) == 1.0

    @jax.jit
    def step(params):
        grad = jax.grad(lambda p: jnp.mean((net.apply(p, obs, no_z) - 0.5) ** 2))(params)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, grad)

    for _ in range(1000):
        params = step(params)
    assert (abs(float(net.apply(params, obs, no_z).mean()) - 0.5) < 0.01) == returns
