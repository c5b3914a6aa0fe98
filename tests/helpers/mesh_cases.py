"""What holds on eight devices: run by test_mesh in a process that has them."""

import os
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from helpers.learners import LEARNERS, build
from zsrl_jax import td3, train
from zsrl_jax.devices import mesh, precision
from zsrl_jax.errors import ConfigError
from zsrl_jax.seeds import over_seeds, seed_keys
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.tasks import SAMPLERS
from zsrl_jax.training.encoded import DATA_AXES, encode
from zsrl_jax.training.loop import make_loop, stream_keys
from zsrl_jax.training.run import running
from zsrl_jax.training.stage import learn
from zsrl_jax.training.streaming import Resident
from zsrl_jax.training.task_fit import fit_tasks
from zsrl_jax.types import Spec, Transition

UPDATES = 20


def mesh_of(seed, data):
    config = get_cell("other", "fb", "btd", "smoke")
    config.update({"seeds": seed, "devices": {"seed": seed, "data": data}})
    return mesh.make(config)


def trained(learner, data, place, how="map"):
    keys = seed_keys(5, 2)
    state = over_seeds(learner.init, (0,))(stream_keys(keys, 0))
    loop = make_loop(learner.sample, learner.update, UPDATES)
    program = mesh.over_seeds(loop, (0, 0, None, None), place, how=how)
    return program(state, stream_keys(keys, 1), data, jnp.asarray(0))


MAIN = ("fb", "policy", "lra_p", "byol_gamma", "contrastive", "hilp")  # each of another form
REST = [pytest.param(name, marks=pytest.mark.lowering) for name in LEARNERS if name not in MAIN]


def is_free(path):
    """Tell whether a leaf hangs on the last bias of hilp's phi, on which no distance depends.

    Its gradient is rounding alone, which Adam scales up to whole steps. It is the bias, and two
    metrics of phi as it stands: its norm, and the orthonormality, which here has the weight 0.
    """
    bias = "params" in path and path.endswith("['phi']['Dense_1']['bias']")
    return bias or path.endswith("['encoder/norm']") or "orthonormality" in path


@pytest.mark.parametrize("name", [*MAIN, *REST])
def test_devices_change_no_number(name, noise_dataset):
    """A divided batch is the whole one to float error; seeds on devices of their own bit-equal."""
    learner, data = build(name, noise_dataset)
    one = trained(learner, data, None)
    chex.assert_trees_all_equal(jax.device_get(trained(learner, data, mesh_of(2, 1))), one)
    # what a CPU does with seeds; and what an accelerator does, for the two that cost most
    for how in ("map", "vmap") if name in ("fb", "policy") else ("map",):
        with precision.traced_for("cpu" if how == "map" else "gpu"):
            divided = trained(learner, data, mesh_of(2, 4), how)
        for (path, a), b in zip(
            jax.tree.leaves_with_path(one), jax.tree.leaves(divided), strict=True
        ):
            where = jax.tree_util.keystr(path)
            if name == "hilp" and is_free(where):
                continue
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6, err_msg=where)


def flops(place):
    """Count what one device computes in an update of a policy with two seeds."""
    section = get_cell("other", "fb", "uniform", "smoke").policy
    policy = td3.make(section, Spec(4, 2), 3, None)
    ones = lambda *width: jnp.ones((512, *width))  # noqa: E731
    rows = Transition(ones(4), ones(2), ones(4), ones(), ones(), ones())
    batch = td3.PolicyBatch(rows, ones(3), ones(), ones(3))
    state = over_seeds(policy.init, (0,))(seed_keys(0, 2))
    loop = make_loop(lambda key, data: data, policy.update, 1)
    program = mesh.over_seeds(loop, (0, 0, None, None), place, how="vmap")
    lowered = jax.jit(program).lower(state, seed_keys(0, 2), batch, 0)
    return lowered.compile().cost_analysis()["flops"]


def test_the_work_is_divided():
    whole = flops(None)
    for shape in ((2, 1), (1, 2), (2, 4)):
        assert flops(mesh_of(*shape)) < whole / np.prod(shape) * 1.25, shape


def small(encoder="lra_p", sampler="btd", **devices):
    config = get_cell("other", encoder, sampler, "smoke")
    config.update({"seeds": 2, "encoder": {"updates": 20}, "policy": {"updates": 20},
                   "log_every": 10, "tasks": {"num_subtrajectories": 50}})  # fmt: skip
    config.devices.update(devices)
    return config


def test_everything_is_placed_where_it_belongs(noise_dataset, tmp_path):
    with running(small(data=2), noise_dataset, tmp_path, quiet=True) as (run, _):
        encoder, data, *_ = encode(run, noise_dataset)
        tasks, pool = fit_tasks(run, encoder, data)
        parts = run.config.policy, encoder.features, SAMPLERS["btd"]
        sample = td3.make_sample(*parts)
        policy = td3.make(run.config.policy, noise_dataset.spec, run.config.encoder.dim, sample)
        state = learn(run, "policy", policy, Resident(data._replace(tasks=tasks), DATA_AXES))
    assert run.mesh.devices.shape == (2, 2)
    for part in (data.phi, data.encoder, data.mean, tasks, pool, state):
        for leaf in jax.tree.leaves(part):
            assert (leaf.sharding.spec, leaf.sharding.mesh) == (P("seed"), run.mesh)
    for leaf in data.store:
        assert leaf.is_fully_replicated and leaf.sharding.mesh == run.mesh
    here = jax.tree.leaves(run.local((state, data.store)))
    assert all(leaf.devices() == {jax.devices()[0]} for leaf in here)


def test_a_run_that_one_device_goes_on_with(noise_dataset):
    """Leave a run in the folder that test_mesh names, begun on two devices."""
    agent = train(small(), noise_dataset, Path(os.environ["ZSRL_TEST_FOLDER"]), quiet=True)
    assert agent.params.tasks.devices() == {jax.devices()[0]}
    assert agent.infer(demonstration=noise_dataset.obs[0]).shape == (2, 8)


def test_devices_tell_who_works(noise_dataset, tmp_path, capsys):
    config = small()
    config.seeds = 5
    with running(config, noise_dataset, tmp_path) as (run, _):
        assert run.mesh.devices.shape == (5, 1)
    assert "devices: seed 5 x data 1, cpu; 3 more are idle" in capsys.readouterr().out


def test_a_store_on_the_host_feeds_one_device(noise_dataset, tmp_path):
    config = small()
    config.data.device_gib = 1e-9
    with pytest.raises(ConfigError, match="which can feed one device"):
        train(config, noise_dataset, tmp_path, quiet=True)
