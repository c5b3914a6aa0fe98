"""What is done differently on an accelerator, run here: the numbers are those of a CPU's way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.learners import LEARNERS, build
from helpers.mesh_cases import small

from zsrl_jax import gmm, train
from zsrl_jax.devices import precision
from zsrl_jax.seeds import over_seeds, seed_keys
from zsrl_jax.training.divergence import guard
from zsrl_jax.training.loop import make_loop, stream_keys


def updated(name, dataset, backend, products="float32", updates=20):
    """Train two seeds by the program that a run on this kind of device has."""
    learner, data = build(name, dataset)
    keys = seed_keys(5, 2)
    with precision.traced_for(backend):
        state = over_seeds(learner.init, (0,))(stream_keys(keys, 0))
        loop = guard(make_loop(learner.sample, learner.update, updates))
        program = over_seeds(loop, (0, 0, None, None, 0), products=products)
        return program(state, stream_keys(keys, 1), data, jnp.asarray(0), jnp.ones(2, bool))


def moments(found):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found[0].opt_state)])


def slow(name):
    return pytest.param(name, marks=pytest.mark.lowering)


@pytest.mark.parametrize("name", [name if name == "lra_p" else slow(name) for name in LEARNERS])
def test_updates_are_the_same_to_float_error(name, noise_dataset):
    """Seeds in one batch and products of the highest precision, as on a GPU and a TPU."""
    here, there = (updated(name, noise_dataset, backend) for backend in ("cpu", "gpu"))
    for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("backend, products", [("gpu", "bfloat16"), ("tpu", "tf32")])
def test_a_request_for_units_changes_products_alone(noise_dataset, backend, products):
    """A CPU ignores the request, so the update is float32's; test_precision rounds by hand."""
    exact = moments(updated("lra_p", noise_dataset, "cpu", updates=1))
    asked = moments(updated("lra_p", noise_dataset, backend, products, 1))
    rounded = moments(updated("lra_p", noise_dataset, "cpu", products, 1))
    size = np.linalg.norm(exact)
    assert np.linalg.norm(asked - exact) < 1e-5 * size < np.linalg.norm(rounded - exact)


def test_a_cpu_refuses_a_gpus_tf32(noise_dataset):
    """So no test here can show it by numbers; test_lowering shows that it is asked for."""
    with pytest.raises(ValueError, match="not supported by dot_general on CPU"):
        updated("lra_p", noise_dataset, "gpu", "tf32", 1)


def test_a_mixture_is_the_same(noise_dataset):
    """Restarts in one batch and all pairs, against one by one and skipped pairs."""
    draw = np.random.default_rng(0)
    centre = 4 * draw.normal(size=(3, 48))
    x = jnp.asarray(centre[draw.integers(3, size=600)] + draw.normal(size=(600, 48)), jnp.float32)
    found = []
    for backend in ("cpu", "gpu"):
        with precision.traced_for(backend):
            found.append(gmm.fit(jax.random.key(0), x, 3, num_restarts=2, moves=0))
    (one, trace), (other, trace_there) = found
    assert np.isclose(trace[-1], trace_there[-1], rtol=1e-5)
    np.testing.assert_allclose(one.means, other.means, rtol=1e-3, atol=1e-3)


@pytest.mark.lowering
def test_a_whole_run_is_the_same_to_float_error(noise_dataset, tmp_path):
    agents = []
    for backend in ("cpu", "gpu"):
        with precision.traced_for(backend):
            agents.append(train(small(), noise_dataset, tmp_path / backend, quiet=True))
    for part in ("encoder", "actor"):
        one, other = (jax.tree.leaves(getattr(agent.params, part)) for agent in agents)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    one, other = (agent.params.tasks for agent in agents)
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
