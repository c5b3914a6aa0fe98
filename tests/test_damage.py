"""Every kind of damage is one typed error with path, key, expected and found, or a listed skip."""

import io
import pickle
import struct
import time
import warnings
import zipfile

import numpy as np
import pytest
from test_data import write_counters

from zsrl_jax.data import load_dataset, npz
from zsrl_jax.errors import DamageError, DataError

NAMES = [f"episode_{i}_5.npz" for i in range(4)]
VICTIM = NAMES[2]


class Canary:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return open, (str(self.place), "w")


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


def test_no_flipped_bit_changes_a_value_in_silence(folder):
    file = folder / NAMES[1]
    whole, good = file.read_bytes(), npz.read(file, ["observation", "action"])
    noticed = 0
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        file.write_bytes(bytes(damaged))
        try:
            found = npz.read(file, ["observation", "action"])
        except DamageError:
            noticed += 1
            continue
        for key in good:  # a bit that nothing depends on, such as a time of day
            np.testing.assert_array_equal(found[key], good[key])
    assert noticed > 50


def test_a_bomb_is_not_inflated(tmp_path):
    raw = io.BytesIO()
    np.lib.format.write_array(raw, np.zeros(10))
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("observation.npy", raw.getvalue())
    data = bytearray((tmp_path / "bomb.npz").read_bytes())
    place = data.index(b"PK\x01\x02") + 24  # the size that the directory claims
    data[place : place + 4] = struct.pack("<I", 4_000_000_000)
    (tmp_path / "bomb.npz").write_bytes(bytes(data))
    with pytest.raises(DamageError, match="at most 1032 bytes a byte"):
        npz.read(tmp_path / "bomb.npz", ["observation"])


@pytest.mark.parametrize("kind", ["ogbench", "exorl"])
def test_names_and_links_in_archives_lead_nowhere(tmp_path, kind):
    folder = tmp_path / "deep" / "data"
    folder.mkdir(parents=True)
    keys = ("observations", "actions", "terminals")
    raw = {"observations": np.eye(4, 3), "actions": np.zeros((4, 2)), "terminals": np.eye(4)[3]}
    file = folder / "x-v0.npz"
    np.savez(file, **{key: raw[key].astype(np.float32) for key in keys})
    if kind == "exorl":
        file.unlink()
        write_counters(folder, NAMES)
        file = folder / VICTIM
    link = zipfile.ZipInfo("link.npy")
    link.external_attr = 0o120777 << 16
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("../../outside.npy", array.getvalue())
        archive.writestr("/tmp/outside_zsrl.npy", array.getvalue())
        archive.writestr(link, str(tmp_path / "outside.npy"))
    before = {f for f in tmp_path.rglob("*") if ".zsrl_store" not in str(f)}
    try:
        load_dataset(folder, progress=False)
    except DamageError as error:
        assert error.key == "link"  # no array: refused
    after = {f for f in tmp_path.rglob("*") if ".zsrl_store" not in str(f)}
    assert before == after and not any("outside" in f.name for f in tmp_path.rglob("*"))


def test_warnings_are_silent_for_clean_data(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_dataset(folder, progress=False)


def entry(file):
    """Return an archive's bytes, and where the first entry of the list at its end stands."""
    data = bytearray(file.read_bytes())
    return data, data.index(b"PK\1\2")


def repeat_a_key(file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr("observation.npy", b"")


def as_of_64_bits(file):
    data, place = entry(file)
    data[place + 20 : place + 24] = b"\xff" * 4
    file.write_bytes(data)


def as_if_encrypted(file):
    data, place = entry(file)
    data[place + 8] |= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (repeat_a_key, "each key once"),
        (as_of_64_bits, "a zip64 entry"),
        (as_if_encrypted, "an encrypted one"),
    ],
)
def test_archives_of_other_kinds_are_refused_by_name(folder, spoil, told):
    spoil(folder / VICTIM)
    with pytest.raises(DamageError, match=f"{VICTIM}.*{told}"):
        load_dataset(folder, progress=False)


def test_an_archive_with_comments_and_old_names_is_read(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, größe=np.arange(3))
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = b"of the year"
    np.testing.assert_array_equal(npz.read(file, ["größe"])["größe"], [0, 1, 2])
    data, place = entry(file)
    struct.pack_into("<H", data, place + 8, 0)  # the name is of the old code page now
    file.write_bytes(data)
    old = "größe".encode().decode("cp437")
    np.testing.assert_array_equal(npz.read(file, [old])[old], [0, 1, 2])
