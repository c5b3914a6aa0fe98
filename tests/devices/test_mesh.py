"""Seeds and batches over several devices: eight of the processor's, in a process that has them."""

import os
import subprocess
import sys

import chex
import pytest
from helpers.person import ROOT

from zsrl_jax import train
from zsrl_jax.devices import mesh
from zsrl_jax.errors import ConfigError
from zsrl_jax.settings import cells
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.settings.checks import check


@pytest.mark.lowering
def test_eight_devices(noise_dataset, tmp_path):
    """The cases of mesh_cases; then one device goes on with a run that two began."""
    from helpers import mesh_cases

    run_on_eight(tmp_path)
    agents = []
    for name in ("two", "one"):
        config = mesh_cases.small()
        config.policy.updates = 40
        agents.append(train(config, noise_dataset, tmp_path / name, quiet=True))
    one, other = (agent.params for agent in agents)
    for part in ("encoder", "actor", "tasks"):
        chex.assert_trees_all_equal(getattr(one, part), getattr(other, part))


def run_on_eight(folder, *args):
    """Run mesh_cases in a process that sees eight devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    env = {**os.environ, "XLA_FLAGS": flags, "ZSRL_TEST_FOLDER": str(folder / "two")}
    call = [sys.executable, "-m", "pytest", "-p", "no:xdist", "tests/helpers/mesh_cases.py", *args]
    done = subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.lowering
def test_eight_devices_with_every_other_learner(tmp_path):
    run_on_eight(tmp_path, "-m", "lowering")


def shape(num_devices, seeds, config=None, **devices):
    config = config or get_cell("cheetah", "fb", "btd", "smoke")
    config.seeds = seeds
    config.devices.update(devices)
    return mesh.shape_of(config, num_devices)


def test_auto_takes_as_many_devices_as_divide_the_seeds():
    assert [shape(n, 6) for n in (1, 2, 4, 8)] == [(1, 1), (2, 1), (3, 1), (6, 1)]
    assert shape(4, 5) == (1, 1)
    assert shape(8, 4, data=4) == (2, 4)
    assert shape(8, 1, cells.oracle_from_text("walker,walk,run,smoke")) == (2, 1)  # one per task


@pytest.mark.parametrize(
    ("num", "seeds", "devices", "told"),
    [
        (4, 5, {"seed": 5}, "JAX sees 4"),
        (8, 4, {"seed": 4, "data": 4}, "JAX sees 8"),
        (8, 4, {"seed": 3}, "divisor of the 4 seeds"),
        (8, 4, {"data": 3}, "divisor of config.encoder.batch"),
    ],
)
def test_what_cannot_be_is_refused(num, seeds, devices, told):
    with pytest.raises(ConfigError, match=told):
        shape(num, seeds, **devices)


def test_a_config_is_checked_against_the_devices_there_are():
    config = get_cell("cheetah", "fb", "btd", "smoke")
    check(config)
    config.devices.data = 2
    with pytest.raises(ConfigError, match="JAX sees 1"):
        check(config)
