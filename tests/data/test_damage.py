"""Every kind of damage is one typed error with path, key, expected and found, or a listed skip."""

import pickle
import time
import warnings
import zipfile

import numpy as np
import pytest
from helpers.small_data import Canary, write_counters

from zsrl_jax.data import load_dataset
from zsrl_jax.errors import DamageError, DataError

NAMES = [f"episode_{i}_5.npz" for i in range(4)]
VICTIM = NAMES[2]


def arrays(file):
    with np.load(file) as raw:
        return dict(raw)


def change(key, function):
    def damage(file):
        found = arrays(file)
        found[key] = function(found[key])
        np.savez(file, **found)

    return damage


def flip(file):
    data = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        info = archive.getinfo("observation.npy")
        place = info.header_offset + 65 + info.compress_size // 2
    data[place] ^= 4
    file.write_bytes(bytes(data))


def plant(key):
    def damage(file):
        found = arrays(file)
        found[key] = np.array([Canary(file.parent / "canary")], dtype=object)
        np.savez(file, **found)

    return damage


def drop(key):
    def damage(file):
        found = arrays(file)
        del found[key]
        np.savez(file, **found)

    return damage


def poison(row, value):
    def put(x):
        x[row, 0] = value
        return x

    return put


def walker(file):
    write_counters(file.parent, [file.name], obs_dim=24)


def to_nowhere(file):
    file.unlink()
    file.symlink_to("nowhere.npz")


def all_rows(number):
    def damage(file):
        np.savez(file, **{key: x[:number] for key, x in arrays(file).items()})

    return damage


DAMAGE = {
    "empty": (lambda f: f.write_bytes(b""), None, "an npz archive, found an empty file"),
    "truncated": (lambda f: f.write_bytes(f.read_bytes()[:700]), None, "a whole npz archive"),
    "a flipped bit": (flip, "observation", "damage|checksum"),
    "an HTML page": (lambda f: f.write_text("<html>404</html>"), None, "found an HTML page"),
    "a link to nowhere": (to_nowhere, None, "a file that can be read, found No such file"),
    "a pickle": (lambda f: f.write_bytes(pickle.dumps([1])), None, "a pickle, which is never"),
    "an object array": (plant("observation"), "observation", "found an object array"),
    "an object array nobody reads": (plant("extra"), "extra", "found an object array"),
    "text": (change("action", lambda x: x.astype(str)), "action", "expected numbers"),
    "a missing key": (drop("action"), "action", "expected the keys .* found only"),
    "physics missing": (drop("physics"), "physics", "18 columns .* found nothing"),
    "a wrong shape": (change("action", lambda x: x[..., None]), "action", "6 rows"),
    "a column as a row": (change("discount", lambda x: x[:, 0]), "discount", "6 rows"),
    "a wrong width": (change("action", lambda x: x[:, :5]), "action", "6 columns"),
    "not a number": (change("observation", poison(2, np.nan)), "observation", "finite in row 2"),
    "infinite": (change("physics", poison(3, np.inf)), "physics", "not finite in row 3"),
    "too large for float32": (
        change("observation", lambda x: x.astype(np.float64) * 1e300), "observation", "not finite",
    ),
    "an action out of bounds": (
        change("action", poison(4, 1.5)), "action", r"in \[-1, 1\], found 1.5 in row 4",
    ),
    "a discount of 2": (change("discount", lambda x: 2 * x), "discount", r"values in \[0, 1\]"),
    "a length not the name's": (all_rows(5), "observation", "6 rows .* found shape"),
    "another domain": (walker, "observation", "17 columns as in 'episode_0_5.npz', found 24"),
    "a duplicate": (
        lambda f: f.write_bytes((f.parent / NAMES[1]).read_bytes()), None, "a copy of .*_1_5.npz",
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    write_counters(tmp_path / "data", NAMES)
    return tmp_path / "data"


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_one_typed_line(folder, kind):
    damage, key, told = DAMAGE[kind]
    damage(folder / VICTIM)
    start = time.monotonic()
    with pytest.raises(DamageError, match=told) as error:
        load_dataset(folder, progress=False)
    assert time.monotonic() - start < 1
    assert error.value.path == str(folder / VICTIM) and error.value.key == key
    assert error.value.expected and error.value.found and "\n" not in str(error.value)
    assert not (folder / "canary").exists()
    assert sorted(f.name for f in folder.iterdir()) == NAMES  # nothing half-written


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_skipped_counted_and_listed(folder, kind):
    damage, _, told = DAMAGE[kind]
    damage(folder / VICTIM)
    with pytest.warns(UserWarning, match="1 damaged episodes skipped"):
        data = load_dataset(folder, on_bad="skip", progress=False)
    np.testing.assert_array_equal(data.obs[:, 0, 0], [0, 100, 300])
    assert len(data.skipped) == 1 and VICTIM in data.skipped[0]
    with pytest.warns(UserWarning, match=told):
        assert load_dataset(folder, on_bad="skip").skipped == data.skipped  # and from the store
    with pytest.raises(DamageError, match=told) as error:  # who did not ask gets no partial data
        load_dataset(folder)
    assert error.value.path == str(folder / VICTIM) and str(error.value) == data.skipped[0]
    assert not (folder / "canary").exists()


@pytest.mark.parametrize("kind", ["another domain", "physics missing", "a wrong width"])
def test_one_odd_file_is_left_out_also_when_it_is_the_first(folder, kind):
    DAMAGE[kind][0](folder / NAMES[0])
    with pytest.warns(UserWarning, match="1 damaged episodes skipped"):
        data = load_dataset(folder, on_bad="skip", progress=False)
    np.testing.assert_array_equal(data.obs[:, 0, 0], [100, 200, 300])
    assert NAMES[0] in data.skipped[0] and "as in 'episode_1_5.npz'" in data.skipped[0]
    assert data.physics is not None and data.domain == "cheetah"


def test_what_the_first_file_lacks_is_not_dropped_from_all(folder):
    drop("physics")(folder / NAMES[0])
    with pytest.raises(
        DamageError, match="18 columns as in 'episode_1_5.npz', found noth"
    ) as error:
        load_dataset(folder, progress=False)
    assert error.value.path == str(folder / NAMES[0]) and error.value.key == "physics"


def test_physics_of_two_precisions_are_stored_as_the_first(folder):
    change("physics", lambda x: x.astype(np.float32))(folder / VICTIM)
    data = load_dataset(folder, progress=False)
    data.verify()
    np.testing.assert_array_equal(data.physics[2], arrays(folder / VICTIM)["physics"])


def test_one_row_is_no_episode(folder):
    (folder / VICTIM).unlink()
    write_counters(folder, ["episode_2_0.npz"], rows=1)
    with pytest.raises(DamageError, match="at least two rows"):
        load_dataset(folder)


def test_every_file_bad_is_an_error_also_when_skipping(folder):
    for name in NAMES:
        (folder / name).write_bytes(b"")
    with pytest.raises(DataError, match="no episode is whole"):
        load_dataset(folder, on_bad="skip", progress=False)


def test_float64_observations_are_taken_cast_and_said(folder):
    change("observation", lambda x: x.astype(np.float64))(folder / VICTIM)
    for _ in range(2):  # when packed, and from the store
        with pytest.warns(UserWarning, match=r"'observation' is float64: cast to float32 \(1 epis"):
            data = load_dataset(folder, progress=False)
    assert data.obs.dtype == np.float32 and data.num_episodes == 4


def test_warnings_are_silent_for_clean_data(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_dataset(folder, progress=False)
