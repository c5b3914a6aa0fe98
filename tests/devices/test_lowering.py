"""Every program of a run at paper sizes, lowered for a GPU and a TPU that are not here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.lowering import BACKENDS, faults, lowered

from zsrl_jax import acting
from zsrl_jax.agent import Agent
from zsrl_jax.data import Normalizer
from zsrl_jax.devices import precision
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.exploration import rnd
from zsrl_jax.seeds import over_seeds
from zsrl_jax.settings import cells
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.settings.fields import explorer_fields
from zsrl_jax.tasks import SAMPLERS
from zsrl_jax.training.blueprint import Program, programs, shape_of
from zsrl_jax.types import Spec


def slow(*values):
    """Mark a case that `make test-lowering` runs."""
    return pytest.param(*values, marks=pytest.mark.lowering)


def paper(encoder="fb", sampler="btd", seeds=5, **fields):
    config = get_cell("cheetah", encoder, sampler, "paper")
    config.seeds = seeds
    config.update(fields)
    return config


def some(config, *names):
    """Return the programs of a run that have these names, or all."""
    found = list(programs(config, shape_of(config)))
    assert not set(names) - {program.name for program in found}
    return [program for program in found if not names or program.name in names]


def wrong(config, *names, shape=None, platforms=tuple(BACKENDS)):
    """Return what is wrong with programs of a config, traced as on the first of the platforms."""
    with precision.traced_for(BACKENDS[platforms[0]]):
        return [
            fault
            for program in some(config, *names)
            for fault in faults(program.name, *program.jitted(shape), *platforms)
        ]


@pytest.mark.lowering
@pytest.mark.parametrize("platforms", [BACKENDS, ("tpu",), ("cuda",)], ids=",".join)
def test_all_programs_of_a_run(platforms):
    """The updates of fb and of the policy, freezing, features, mixture: five seeds by vmap."""
    config = paper()
    assert [p.name for p in some(config)] == [
        "encoder", "freeze", "features", "mean", "tasks", "task sizes", "policy",
    ]  # fmt: skip
    assert not wrong(config, platforms=tuple(platforms))


@pytest.mark.parametrize("encoder", [name for name in ENCODERS if name != "fb"])
def test_the_update_of_every_encoder(encoder):
    assert not wrong(paper(encoder), "encoder", "freeze")


@pytest.mark.lowering
@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "btd"])
def test_every_sampler_is_fitted_and_drawn_from(sampler):
    config = paper("lra_p", sampler, policy={"feature_gib": 0.0})  # phi on the fly
    assert "features" not in [p.name for p in some(config)]
    assert not wrong(config, "tasks", "policy")


@pytest.mark.parametrize(
    ("name", "shape"),
    [("encoder", (4, 1)),
     *(slow(name, shape) for name in ("encoder", "policy")
       for shape in ((1, 4), (4, 1), (8, 1), (2, 4)) if (name, shape) != ("encoder", (4, 1)))],
)  # fmt: skip
def test_updates_over_four_and_eight_devices(name, shape):
    config = paper("fb", "uniform", seeds=max(shape[0], 2))
    assert not wrong(config, name, shape=shape)


@pytest.mark.lowering
@pytest.mark.parametrize("shape", [(4, 1), (2, 4)], ids=str)
def test_what_is_done_once_over_four_and_eight_devices(shape):
    names = "freeze", "features", "mean", "tasks", "task sizes"
    assert not wrong(paper("lra_sr", seeds=4), *names, shape=shape)


@pytest.mark.lowering
def test_an_oracle_an_explorer_and_what_acts():
    assert not wrong(cells.oracle_config("walker", scale="paper"), "policy")
    spec, section = Spec(17, 6), explorer_fields()
    explorer, key = rnd.make(section, spec), jax.eval_shape(lambda: jax.random.key(0))
    store = shape_of(paper()).store()
    state = jax.eval_shape(explorer.init, key)
    assert not faults("explorer", jax.jit(explorer.update), (state, key, store), *BACKENDS)
    config = paper()
    with precision.traced_for("gpu"):
        agent = Agent(config, spec, "cheetah", None)
        first, freeze, *_, policy = some(config)
        normalizer = jax.eval_shape(
            lambda: Normalizer(jnp.zeros(17), jnp.ones(17), jnp.asarray(10.0))
        )
        obs = jax.ShapeDtypeStruct((5, 10, 17), jnp.float32)
        z = jax.ShapeDtypeStruct((5, 10, 50), jnp.float32)
        act = policy.args[0].params["actor"], normalizer, obs, z
        assert not faults("act", agent._act, act, *BACKENDS)
        phi = freeze.result(), normalizer, jax.ShapeDtypeStruct((5120, 17), jnp.float32)
        assert not faults("prompt", agent._features, phi, *BACKENDS)


@pytest.mark.lowering
def test_learners_side_by_side_and_critics_that_choose():
    """The update of an ensemble, on one device and on four, and how it acts."""
    fields = {"ensemble": 2, "candidates": 16, "way_back": True}
    config = paper("lra_p", "uniform", policy=fields)
    assert not wrong(config, "policy")
    assert not wrong(config, "policy", shape=(1, 4))
    spec, (policy,) = Spec(17, 6), some(config, "policy")
    with precision.traced_for("gpu"):
        agent = Agent(config, spec, "cheetah", None)
        normalizer = jax.eval_shape(
            lambda: Normalizer(jnp.zeros(17), jnp.ones(17), jnp.asarray(10.0))
        )
        rows = [jax.ShapeDtypeStruct((5, 10, width), jnp.float32) for width in (17, 50)]
        args = acting.params_of(config.policy, policy.args[0]), normalizer, *rows
        assert not faults("act", agent._act, args, *BACKENDS)


@pytest.mark.parametrize(
    ("platform", "kind", "written", "absent"),
    [("cuda", "tf32", "tf32", "bf16"), ("cuda", "bfloat16", "bf16", "tf32"),
     ("tpu", "tf32", "num_primitive_operations = 3", "tf32"),
     ("tpu", "bfloat16", "bf16", "tf32"), ("cuda", "float32", "HIGHEST", "bf16")],
)  # fmt: skip
def test_products_are_in_the_units_that_the_device_has(platform, kind, written, absent):
    """A TPU has no tf32: it gets three products of bfloat16."""
    with precision.traced_for(BACKENDS[platform]):
        (update,) = some(paper("lra_p", precision=kind), "encoder")
        text = lowered(*update.jitted(), platform)
    assert written in text and absent not in text


def square(function):
    """Return a program of two seeds that the checker looks at."""
    return over_seeds(function, (0,)), (jax.ShapeDtypeStruct((2, 3), jnp.float32),)


def asks_host(x):
    return jax.lax.map(lambda y: jax.pure_callback(np.sin, y, y), x)


def calls_lapack(x):
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call("lapack_sgesdd_ffi", like, vmap_method="broadcast_all")(x)


def prints(x):
    jax.debug.print("{}", x.sum())
    return x


@pytest.mark.parametrize(
    ("function", "told"),
    [(asks_host, "odd: calls back to the host (pure_callback)"),
     (prints, "odd: calls back to the host (debug_print)"),
     (calls_lapack, "odd: the custom call lapack_sgesdd_ffi is not known there")],
)  # fmt: skip
def test_the_checker_names_what_is_wrong(function, told):
    assert faults("odd", *square(function), "cuda") == [told]


def test_the_checker_names_float64():
    with jax.enable_x64(True):
        wide = jax.jit(lambda x: (x.astype(jnp.float64) * 2).astype(jnp.float32))
        program = wide, (jax.ShapeDtypeStruct((3,), jnp.float32),)
        assert faults("odd", *program, "tpu") == ["odd: computes in float64"]
    assert not faults("even", *square(jnp.sin), "cuda", "tpu")


@pytest.mark.parametrize(
    ("odd", "told"),
    [(prints, "calls back to the host (debug_print)"), (calls_lapack, "the custom call lapack"),
     (lambda x: x, "computes in float64")],  # as with JAX_ENABLE_X64=1
    ids=["callback", "lapack", "float64"],
)  # fmt: skip
def test_a_program_of_a_run_that_is_wrong_is_named(odd, told, monkeypatch):
    """The same check as above, of a learner's real update with one odd operation in it."""
    right = precision.product

    def product(x, kernel):
        out = right(x, kernel)
        return out + jax.lax.stop_gradient(odd(jax.lax.stop_gradient(out)))

    monkeypatch.setattr(precision, "product", product)
    with jax.enable_x64("float64" in told):
        (fault, *_) = wrong(paper("lra_p", "uniform"), "encoder")
    assert fault.startswith(f"encoder: {told}")


def test_a_program_is_traced_for_the_device_it_is_lowered_for():
    """An accelerator's seeds are one batch; a CPU's come one after the other."""

    def product(x):
        return x @ x

    args = (jax.ShapeDtypeStruct((2, 3, 3), jnp.float32),)
    program = Program("product", product, (0,), args)
    with precision.traced_for("gpu"):
        there = lowered(*program.jitted(), "cuda")
    here = lowered(*program.jitted(), "cpu")
    assert "while" in here and "while" not in there
    assert "batching_dims" in there and "HIGHEST" in there and "HIGHEST" not in here
