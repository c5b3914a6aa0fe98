"""Products of fewer bits: in updates alone, forward and backward, and a fact of the result."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.learners import build
from helpers.tiny_run import make_run

from zsrl_jax import networks, train
from zsrl_jax.devices import precision
from zsrl_jax.errors import ConfigError
from zsrl_jax.runs.identity import facts
from zsrl_jax.seeds import over_seeds, seed_keys
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.settings.checks import check
from zsrl_jax.training.loop import make_loop, stream_keys

DROPPED = {"tf32": 2.0**-11, "bfloat16": 2.0**-8}  # half of the last bit that is kept


def net():
    made = networks.mlp((5,), (), 7)
    params = jax.tree.map(lambda x: x + 0.1, made.init(jax.random.key(0)))
    return made, params, jax.random.normal(jax.random.key(1), (6, 5))


def rounded(x, name):
    """Round to the nearest number with that many bits, ties to even, by numpy's own arithmetic."""
    mantissa, exponent = np.frexp(np.asarray(x, np.float64))
    scale = 2.0 ** (precision.BITS[name] + 1)
    return np.ldexp(np.round(mantissa * scale) / scale, exponent)


@pytest.mark.parametrize("name", precision.UNITS)
def test_factors_are_rounded_forward_and_backward(name):
    made, params, x = net()
    kernel, bias = (np.asarray(params["Dense_0"][part]) for part in ("kernel", "bias"))
    weight = np.asarray(jax.random.normal(jax.random.key(2), (6, 7)))

    def loss(params, x):
        return jnp.sum(made.apply(params, x) * weight)

    grad = precision.bind(jax.jit(jax.grad(loss, (0, 1))), name)(params, x)
    out = precision.bind(made.apply, name)(params, x)
    low = [rounded(part, name) for part in (x, kernel, weight)]
    np.testing.assert_allclose(out, low[0] @ low[1] + bias, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        grad[0]["Dense_0"]["kernel"], low[0].T @ low[2], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(grad[1], low[2] @ low[1].T, rtol=1e-5, atol=1e-6)
    assert out.dtype == jnp.float32
    error = np.abs(out - made.apply(params, x)).max()
    assert DROPPED[name] / 100 < error < 40 * DROPPED[name]


def test_float32_is_what_is_written():
    made, params, x = net()
    plain = made.apply(params, x)
    np.testing.assert_array_equal(precision.bind(made.apply, "float32")(params, x), plain)
    precision.bind(made.apply, "bfloat16")(params, x)
    np.testing.assert_array_equal(made.apply(params, x), plain)  # nothing of it stays


@pytest.mark.parametrize(
    "name", ["lra_p", "policy", pytest.param("fb", marks=pytest.mark.lowering)]
)
def test_an_update_multiplies_as_it_is_told(name, noise_dataset):
    """One update lies as far from float32's as the bits say, and its parameters are float32."""
    learner, data = build(name, noise_dataset)
    keys = seed_keys(0, 2)
    state = over_seeds(learner.init, (0,))(stream_keys(keys, 0))
    loop = make_loop(learner.sample, learner.update, 1)
    moments = {}
    for kind in precision.NAMES:
        program = over_seeds(loop, (0, 0, None, None), products=kind)
        new, _ = program(state, stream_keys(keys, 1), data, 0)
        assert {x.dtype for x in jax.tree.leaves(new.params)} == {jnp.dtype("float32")}
        moments[kind] = np.concatenate([np.ravel(x) for x in jax.tree.leaves(new.opt_state)])
    size = np.linalg.norm(moments["float32"])
    tf32, bfloat16 = (
        np.linalg.norm(moments[kind] - moments["float32"]) / size for kind in precision.UNITS
    )
    assert 1e-6 < tf32 < bfloat16 < 0.1


def test_the_precision_is_a_fact_that_older_saves_have_as_float32(tmp_path, noise_dataset):
    config = get_cell("other", "lra_p", "uniform", "smoke")
    config.update({"encoder": {"updates": 20}, "policy": {"updates": 20}})
    before = facts(config, "encoder", "abc")
    assert "precision" not in before
    assert facts(make_run(tmp_path / "x").config, "policy", "abc")  # a config of before
    train(config, noise_dataset, tmp_path / "run", quiet=True)
    config.precision = "bfloat16"
    assert facts(config, "encoder", "abc") == before | {"precision": "bfloat16"}
    with pytest.raises(ConfigError, match="precision was not there, now bfloat16"):
        train(config, noise_dataset, tmp_path / "run", quiet=True)


def test_an_unknown_precision_is_refused():
    config = get_cell("cheetah", "fb", "btd", "smoke")
    config.precision = "float16"
    with pytest.raises(ConfigError, match=r"config.precision.*tf32"):
        check(config)
