"""What may refuse a run does so before any data is made: folder, lock, permissions, settings."""

import os

import jax
import numpy as np
import pytest

import zsrl_jax
from zsrl_jax.data import Dataset
from zsrl_jax.errors import ConfigError, DataError, DiskError, LockedError
from zsrl_jax.files import lock
from zsrl_jax.runs import step_saves
from zsrl_jax.runs.identity import facts
from zsrl_jax.training import run


@pytest.fixture
def config(monkeypatch):
    """A smoke cell; whoever opens its data has come too far."""

    def too_far(*_, **__):
        raise AssertionError("data was made")

    monkeypatch.setattr(run, "open_data", too_far)
    return zsrl_jax.config("cheetah", "fb", "btd", "smoke")


def test_that_test_can_fail(config, tmp_path):
    with pytest.raises(AssertionError, match="data was made"):
        zsrl_jax.train(config, workdir=tmp_path / "new", quiet=True)


def test_a_file_instead_of_a_folder(config, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="cannot write into"):
        zsrl_jax.train(config, workdir=tmp_path / "file", quiet=True)


def test_a_folder_whose_name_is_a_pattern(config, tmp_path):
    """Orbax would not find what it wrote there."""
    with pytest.raises(
        ConfigError, match=r"a\[1,2\]' has \[ and \] in its name, .* another --workdir"
    ):
        zsrl_jax.train(config, workdir=tmp_path / "a[1,2]", quiet=True)
    assert not (tmp_path / "a[1,2]").exists()


def test_a_folder_in_use(config, tmp_path):
    with lock.held(tmp_path), pytest.raises(LockedError, match="in use by process"):
        zsrl_jax.train(config, workdir=tmp_path, quiet=True)


@pytest.mark.parametrize("name", ["", "encoder", "policy", "agent"])
def test_a_folder_without_permission(name, config, tmp_path, monkeypatch):
    (tmp_path / name).mkdir(exist_ok=True)
    closed = tmp_path / name
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and allowed(path, mode))
    with pytest.raises(DiskError, match=f"cannot write into '{closed}': permission denied"):
        zsrl_jax.train(config, workdir=tmp_path, quiet=True)


def test_another_run_s_folder(config, tmp_path):
    other = zsrl_jax.config("cheetah", "fb", "btd", "laptop")
    meta = {"facts": facts(other, "encoder", "abc")}
    tree = {"w": jax.numpy.zeros(2)}
    step_saves.write(tmp_path / "encoder", 20, tree, meta, [])
    with pytest.raises(ConfigError, match="holds a run with other settings.*encoder.batch was 512"):
        zsrl_jax.train(config, workdir=tmp_path, quiet=True)


def test_nonsense_and_a_folder_that_stays_unmade(config, tmp_path):
    config.policy.updates = -3
    with pytest.raises(ConfigError, match="policy.updates is -3"):
        zsrl_jax.train(config, workdir=tmp_path / "new", quiet=True)
    assert not (tmp_path / "new").exists()


def dataset(obs=17, action=6, **kwargs):
    draw = np.random.default_rng(0)
    return Dataset.from_arrays(
        draw.normal(size=(2, 9, obs)), draw.uniform(-1, 1, (2, 8, action)), **kwargs
    )


def test_data_of_another_robot_is_refused_from_python_too(config, tmp_path):
    told = r"unknown domain \(obs 9, action 2\): expected cheetah \(obs 17, action 6\)"
    with pytest.raises(DataError, match=told):
        zsrl_jax.train(config, dataset(9, 2), tmp_path, quiet=True)
    with pytest.raises(DataError, match="holds walker.*expected cheetah"):
        zsrl_jax.train(config, dataset(24, 6, domain="walker"), tmp_path, quiet=True)


@pytest.mark.parametrize("given", ["configs/cheetah_fb_btd.py", {"domain": "cheetah"}, None])
def test_a_config_of_another_type(given):
    with pytest.raises(ConfigError, match="config is a .*: expected a ConfigDict, such as"):
        zsrl_jax.train(given)


def test_a_path_is_a_dataset(config, tmp_path, monkeypatch):
    asked = []
    (tmp_path / "mine.npz").touch()  # a path that is missing is refused earlier
    monkeypatch.setattr(run, "open_data", lambda config, quiet: asked.append(config.data.path) or 1)
    with pytest.raises(AttributeError):
        zsrl_jax.train(config, tmp_path / "mine.npz", tmp_path / "run", quiet=True)
    assert asked == [str(tmp_path / "mine.npz")] and config.data.path == ""


@pytest.mark.parametrize("given", [3, np.zeros((2, 9, 17))])
def test_a_dataset_of_another_type(given, config, tmp_path):
    with pytest.raises(DataError, match="dataset is a .*: expected a Dataset"):
        zsrl_jax.train(config, given, tmp_path, quiet=True)


def test_a_path_that_does_not_exist(tmp_path):
    config = zsrl_jax.config("cheetah", "fb", "btd", "smoke")
    with pytest.raises(DataError, match="nowhere"):
        zsrl_jax.train(config, tmp_path / "nowhere.npz", quiet=True)
