"""What is damaged or odd in other people's formats is one typed line."""

import h5py
import numpy as np
import pytest
from helpers.foreign import d4rl_arrays, ogbench_arrays, write_hdf5, write_minari

from zsrl_jax.data import load_dataset
from zsrl_jax.data.formats import npz
from zsrl_jax.errors import DamageError

pytestmark = pytest.mark.filterwarnings("ignore:.*(next_observations|scaled|joined|float64)")


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
            npz.refuse_pickles(file, npz.large_members(file))
            found = npz.unpack(file, keys, tmp_path / "raw")
        except DamageError:
            noticed += 1
            continue
        for key, value in ogbench_arrays().items():
            np.testing.assert_array_equal(found[key], value)
    assert noticed > 50
