"""Other people's formats: told apart by content, read right, and written so that they read back."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest
from test_data import write_counters

import zsrl_jax
from zsrl_jax.data import Dataset, load_dataset, npz
from zsrl_jax.data.formats import detect
from zsrl_jax.data.writing import write_dataset
from zsrl_jax.errors import DamageError, DataError

LENGTHS = (4, 2, 6)
ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.filterwarnings("ignore:.*(next_observations|scaled|joined|float64)")


def episodes(obs_dim=3, action_dim=2):
    """Yield obs, action, reward and terminal of episodes that say where they stand."""
    for i, steps in enumerate(LENGTHS):
        value = 100.0 * i + np.arange(steps + 1)
        obs = np.repeat(value[:, None], obs_dim, axis=1).astype(np.float32)
        action = np.repeat(value[:-1, None] / 1000, action_dim, axis=1).astype(np.float32)
        terminal = (np.arange(steps) == steps - 1) & (i != 1)  # the second one ran out of time
        yield obs, action, value[1:].astype(np.float32), terminal


def expected():
    obs, action, reward, terminal = zip(*episodes(), strict=True)
    return Dataset.from_arrays(obs, action, reward=reward, terminal=terminal)


def same(one, other, reward=True, discount=True):
    np.testing.assert_array_equal(one.length, other.length)
    for a, b in zip(one.episodes(), other.episodes(), strict=True):
        np.testing.assert_array_equal(a.obs, b.obs)
        np.testing.assert_allclose(a.action, b.action, rtol=1e-6, atol=1e-7)
        if discount:
            np.testing.assert_array_equal(a.discount, b.discount)
        if reward:
            np.testing.assert_array_equal(a.reward, b.reward)


def ogbench_arrays(masks=True):
    rows = {key: [] for key in ("observations", "actions", "terminals", "rewards", "masks")}
    for obs, action, reward, terminal in episodes():
        rows["observations"].append(obs)
        rows["actions"].append(np.concatenate([action, action[-1:] * 0 + 0.5]))
        rows["terminals"].append(np.arange(len(obs)) == len(obs) - 1)
        rows["rewards"].append(np.append(reward, 7.0))
        rows["masks"].append(np.append(~terminal, True))
    flat = {key: np.concatenate(parts).astype(np.float32) for key, parts in rows.items()}
    if not masks:
        del flat["masks"], flat["rewards"]
    return flat


def d4rl_arrays(whole=True):
    keys = ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")
    rows = {key: [] for key in keys}
    for obs, action, reward, terminal in episodes():
        last = np.arange(len(action)) == len(action) - 1
        parts = (obs[:-1], action, reward, terminal, last & ~terminal, obs[1:])
        for key, part in zip(keys, parts, strict=True):
            rows[key].append(part)
    flat = {key: np.concatenate(parts) for key, parts in rows.items()}
    if not whole:
        del flat["next_observations"]
    return flat


def write_hdf5(path, flat):
    with h5py.File(path, "w") as file:
        for key, value in flat.items():
            file[key] = value


def write_minari(folder, low=-1.0, high=1.0):
    (folder / "data").mkdir(parents=True)
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        for i, (obs, action, reward, terminal) in enumerate(episodes()):
            group = file.create_group(f"episode_{i}")
            group.attrs["total_steps"] = len(action)
            group["observations/b"], group["observations/a"] = obs[:, 1:], obs[:, :1]
            group["actions"] = low + (action + 1) / 2 * (high - low)
            group["rewards"], group["terminations"] = reward, terminal
            group["truncations"] = ~terminal
    write_space(folder / "data", low, high)


def write_space(folder, low, high):
    space = {"type": "Box", "shape": [2], "low": [low] * 2, "high": [high] * 2}
    (folder / "metadata.json").write_text(json.dumps({"action_space": json.dumps(space)}))


def write_arrow(folder):
    (folder / "data").mkdir(parents=True)
    for i, (obs, action, reward, terminal) in enumerate(episodes()):
        fixed = lambda x: pa.FixedSizeListArray.from_arrays(x.ravel(), x.shape[1])  # noqa: E731
        pad = lambda x: np.concatenate([x, x[:1] * 0])  # noqa: E731
        parts = [fixed(obs[:, 1:]), fixed(obs[:, :1])]
        batch = pa.RecordBatch.from_pydict(
            {
                "episode_id": np.full(len(obs), i, np.int32),
                "observations": pa.StructArray.from_arrays(parts, names=["b", "a"]),
                "actions": fixed(pad(action)),
                "rewards": pad(reward),
                "terminations": pad(terminal),
                "truncations": pad(~terminal),
            }
        )
        pa.dataset.write_dataset(
            batch, folder / "data", format="arrow", partitioning=["episode_id"],
            existing_data_behavior="overwrite_or_ignore",
        )  # fmt: skip
        facts = {"id": i, "total_steps": len(action)}
        (folder / "data" / str(i) / "metadata.json").write_text(json.dumps(facts))
    write_space(folder / "data", -1.0, 1.0)


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


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda f: f.write_bytes(b""), "found an empty file"),
        (lambda f: f.write_bytes(f.read_bytes()[:1500]), "a whole HDF5 file"),
        (lambda f: f.write_text("<!DOCTYPE html>"), "found an HTML page"),
        (lambda f: write_hdf5(f, {"x": np.zeros(3)}), "observations .OGBench, D4RL"),
        (
            lambda f: write_hdf5(f, d4rl_arrays() | {"actions": np.full((12, 2), 2.0)}),
            r"'actions': expected values in \[-1, 1\], found 2 in row 0",
        ),
        (
            lambda f: write_hdf5(f, d4rl_arrays() | {"rewards": np.array(["a"] * 12, "S1")}),
            "'rewards': expected numbers, found type",
        ),
        (lambda f: write_hdf5(f, d4rl_arrays() | {"terminals": np.zeros(5)}), "12 rows"),
    ],
)
def test_damaged_hdf5(tmp_path, spoil, told):
    file = tmp_path / "x.hdf5"
    write_hdf5(file, d4rl_arrays())
    spoil(file)
    with pytest.raises(DamageError, match=told) as error:
        load_dataset(file, progress=False)
    assert str(file) in error.value.path


def edit_minari(change):
    def write(folder):
        write_minari(folder)
        with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
            change(file)
        return folder

    return write


def edit_npz(**changes):
    def write(folder):
        folder.mkdir()
        np.savez(folder / "x.npz", **ogbench_arrays() | changes)
        return folder / "x.npz"

    return write


def edit_d4rl(**changes):
    def write(folder):
        folder.mkdir()
        write_hdf5(folder / "x.hdf5", d4rl_arrays() | changes)
        return folder / "x.hdf5"

    return write


def a_stray_metadata(folder):
    write_minari(folder)
    (folder / "data" / "metadata.json").write_text("[1]")
    return folder


ODD = {
    "ogbench: a pickle nobody reads": (
        edit_npz(extra=np.array([open], dtype=object)), "extra", "an object array: a pickle",
    ),
    "ogbench: terminals not finite": (
        edit_npz(terminals=np.full(15, np.nan)), "terminals", "not finite in row 0",
    ),
    "ogbench: terminals of text": (
        edit_npz(terminals=np.array(["x"] * 15)), "terminals", "expected numbers",
    ),
    "d4rl: no axis": (edit_d4rl(observations=np.float32(1)), "observations", "rows"),
    "d4rl: one axis": (
        edit_d4rl(observations=np.ones(12), next_observations=np.ones(12)), "observations",
        r"12 rows of one axis each, found shape \(12,\)",
    ),
    "d4rl: terminals not finite": (
        edit_d4rl(terminals=np.full(12, np.inf)), "terminals", "not finite in row 0",
    ),
    "minari: no number of steps": (
        edit_minari(lambda f: f["episode_1"].attrs.update(total_steps="x")), "total_steps",
        "a number, found 'x'",
    ),
    "minari: an array for an episode": (
        edit_minari(lambda f: f.update(episode_9=np.zeros(3))), "observations", "only nothing",
    ),
    "minari: a link elsewhere": (
        edit_minari(lambda f: f.update(episode_9=h5py.ExternalLink("/etc/passwd", "/x"))),
        "episode_9", "damage",
    ),
    "minari: metadata of another kind": (a_stray_metadata, None, "expected JSON"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
def test_what_does_not_fit_a_format_is_one_typed_line(tmp_path, kind):
    write, key, told = ODD[kind]
    path = write(tmp_path / "data")
    with pytest.raises(DamageError, match=told) as error:
        load_dataset(path, progress=False)
    assert error.value.key == key and "\n" not in str(error.value)
    assert not list(tmp_path.rglob("*zsrl_store*"))


def test_no_flipped_bit_in_an_archive_changes_or_hides_a_value(tmp_path):
    file, keys = tmp_path / "x.npz", ogbench_arrays().keys()
    np.savez_compressed(file, **ogbench_arrays())
    whole, noticed = file.read_bytes(), 0
    for place in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        file.write_bytes(bytes(damaged))
        try:
            npz.refuse_pickles(file, npz.members(file))
            found = npz.unpack(file, keys, tmp_path / "raw")
        except DamageError:
            noticed += 1
            continue
        for key, value in ogbench_arrays().items():
            np.testing.assert_array_equal(found[key], value)
    assert noticed > 50


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


@pytest.mark.parametrize("to", ["exorl", "ogbench", "minari"])
@pytest.mark.parametrize("known", [True, False])
def test_round_trips(tmp_path, to, known):
    if known:
        names = ["episode_0_5.npz", "episode_1_3.npz"]
        for name, rows in zip(names, (6, 4), strict=True):
            write_counters(tmp_path / "from", [name], rows=rows)
        data = load_dataset(tmp_path / "from", progress=False)
    else:
        data = expected()
    assert write_dataset(data, tmp_path / "to", to) == []
    again = load_dataset(tmp_path / "to", progress=False)
    same(data, again)
    assert again.source.startswith(f"{to}:") and again.domain == data.domain
    assert again.fingerprint() == data.fingerprint()
    if known:
        np.testing.assert_array_equal(again.physics, data.physics)
    with pytest.raises(DataError, match="exists: name another place"):
        write_dataset(data, tmp_path / "to", to)


def test_what_a_format_cannot_hold_is_said(tmp_path):
    obs, action, reward, terminal = zip(*episodes(), strict=True)
    data = Dataset.from_arrays(obs, action, physics=obs)
    for to in ("ogbench", "minari"):
        assert "physics" in write_dataset(data, tmp_path / to, to)[0]


def test_the_page_s_own_arrays():
    page = (ROOT / "docs" / "data.md").read_text()
    shown = next(c for c in re.findall(r"```python\n(.*?)```", page, re.S) if "from_arrays" in c)
    names: dict = {"zsrl_jax": zsrl_jax}
    exec(shown, names)
    np.testing.assert_array_equal(names["mine"].discount[0, :5], [1, 1, 1, 1, 0])


def command(*args):
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    call = [sys.executable, "-m", "experiments.data", *map(str, args)]
    return subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)


def test_the_commands(tmp_path):
    write_counters(tmp_path / "from", ["episode_0_5.npz", "episode_1_5.npz"])
    card = command("inspect", tmp_path / "from", f"--plot={tmp_path / 'x.png'}")
    assert card.returncode == 0, card.stderr
    for word in ("exorl", "cheetah", "10", "5 each", "a transition", "missing: nothing",
                 "state coverage", "speed", "reward run_backward"):  # fmt: skip
        assert word in card.stdout, word
    assert (tmp_path / "x.png").stat().st_size > 10_000
    done = command("convert", tmp_path / "from", tmp_path / "to.npz", "--to", "ogbench")
    assert done.returncode == 0, done.stderr
    same(load_dataset(tmp_path / "to.npz"), load_dataset(tmp_path / "from"))
    (tmp_path / "from" / "episode_1_5.npz").write_bytes(b"")
    bad = command("inspect", tmp_path / "from")
    assert bad.returncode == 2 and "Traceback" not in bad.stderr
    assert "error: episode" in bad.stderr and "found an empty file" in bad.stderr
    drawn = command("inspect", tmp_path / "to.npz", f"--plot={tmp_path / 'x.pmg'}")
    assert drawn.returncode == 2 and "expected a name that ends in" in drawn.stderr
    assert "Traceback" not in drawn.stderr
    wrong = command("inspekt", tmp_path)
    assert wrong.returncode == 2 and "did you mean 'inspect'" in wrong.stderr
