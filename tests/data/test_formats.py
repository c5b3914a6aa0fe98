"""Other people's formats: told apart by content, and read right."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.foreign import (
    LENGTHS,
    d4rl_arrays,
    expected,
    ogbench_arrays,
    same,
    write_arrow,
    write_hdf5,
    write_minari,
)

import zsrl_jax
from zsrl_jax.data import load_dataset
from zsrl_jax.data.formats.registry import detect
from zsrl_jax.errors import DamageError, DataError

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:.*(next_observations|scaled|joined|float64)")


def test_ogbench(tmp_path):
    file = tmp_path / "maze-navigate-v0.npz"
    np.savez_compressed(file, **ogbench_arrays())
    np.savez_compressed(tmp_path / "maze-navigate-v0-val.npz", **ogbench_arrays())
    assert detect(file) == detect(tmp_path) == "ogbench"
    for path in (file, tmp_path):
        data = load_dataset(path, progress=False)
        same(data, expected())
        assert data.domain is None and data.source == f"ogbench:{path}"
    assert not list(tmp_path.rglob("raw_*"))  # what was unpacked is gone
    np.savez_compressed(tmp_path / "other-v0.npz", **ogbench_arrays())
    with pytest.raises(DataError, match="holds 2 datasets .* name one file"):
        load_dataset(tmp_path)


def test_ogbench_terminals_end_trajectories_not_tasks(tmp_path):
    flat = ogbench_arrays(masks=False)
    state = flat["observations"]
    np.savez(tmp_path / "x.npz", **flat, qpos=state[:, :2], qvel=state[:, 2:])
    data = load_dataset(tmp_path / "x.npz", progress=False)
    same(data, expected(), reward=False, discount=False)
    assert data.discount[0, :4].min() == 1 and data.reward is None
    np.testing.assert_array_equal(data.physics, data.obs)
    flat["terminals"][-1] = 0
    with pytest.raises(DamageError, match="'terminals': expected an end in row 14, the last"):
        load_dataset(flat)


@pytest.mark.parametrize("kind", ["minari", "arrow"])
def test_minari_without_minari(tmp_path, kind):
    (write_minari if kind == "minari" else write_arrow)(tmp_path / "data-v0")
    assert detect(tmp_path / "data-v0") == "minari"
    with pytest.warns(UserWarning, match=r"in this order: a \(1,\), b \(2,\)"):
        data = load_dataset(tmp_path / "data-v0", progress=False)
    same(data, expected())
    assert "gymnasium" not in sys.modules and "minari" not in sys.modules


def test_minari_actions_are_scaled_from_their_bounds_and_it_is_said(tmp_path):
    write_minari(tmp_path / "data-v0", -0.4, 0.4)
    with pytest.warns(UserWarning, match=r"scaled to \[-1, 1\] from \[-0.4, 0.4\]"):
        same(load_dataset(tmp_path / "data-v0", progress=False), expected())


def test_d4rl(tmp_path):
    write_hdf5(tmp_path / "x.hdf5", d4rl_arrays())
    assert detect(tmp_path / "x.hdf5") == "d4rl"
    same(load_dataset(tmp_path / "x.hdf5", progress=False), expected())
    flat = d4rl_arrays()
    flat["timeouts"] = flat["timeouts"] & False  # as in the first release of D4RL
    with pytest.warns(UserWarning, match="1 episodes end where the next row does not go on"):
        same(load_dataset(flat, progress=False), expected())


def test_d4rl_without_the_state_reached_leaves_it_out_and_says_so(tmp_path):
    flat = d4rl_arrays(whole=False)
    flat["infos/qpos"], flat["infos/qvel"] = flat["observations"], flat["observations"]
    write_hdf5(tmp_path / "x.hdf5", flat)
    with pytest.warns(UserWarning, match="of 3 episodes is left out, 2 of them terminal"):
        data = load_dataset(tmp_path / "x.hdf5", progress=False)
    np.testing.assert_array_equal(data.length, np.subtract(LENGTHS, 1))
    np.testing.assert_array_equal(data.obs[2, :6], expected().obs[2, :6])
    np.testing.assert_array_equal(data.physics[2, :6, :3], expected().obs[2, :6])
    assert (data.discount[2, :5] == 1).all()


def test_arrays_of_a_notebook():
    same(load_dataset(ogbench_arrays(), progress=False), expected())
    same(load_dataset(d4rl_arrays(), progress=False), expected())
    assert load_dataset(d4rl_arrays(), max_episodes=2, progress=False).num_episodes == 2
    with pytest.raises(DamageError, match="'arrays', key 'actions'"):
        load_dataset({"observations": np.zeros((3, 2)), "terminals": np.ones(3)})


def test_folders_that_are_no_episodes_are_passed_over(tmp_path):
    write_arrow(tmp_path / "m")
    (tmp_path / "m" / "data" / "old").mkdir()
    (tmp_path / "m" / "data" / "old" / "part-0.arrow").write_bytes(b"")
    same(load_dataset(tmp_path / "m", progress=False), expected())


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    write_hdf5(tmp_path / "x.hdf5", d4rl_arrays())
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DataError, match=r"needs the package h5py: pip install 'zsrl_jax\[formats"):
        load_dataset(tmp_path / "x.hdf5")


def test_the_page_s_own_arrays():
    page = (ROOT / "docs" / "data.md").read_text()
    shown = next(c for c in re.findall(r"```python\n(.*?)```", page, re.S) if "from_arrays" in c)
    names: dict = {"zsrl_jax": zsrl_jax}
    exec(shown, names)
    np.testing.assert_array_equal(names["mine"].discount[0, :5], [1, 1, 1, 1, 0])
