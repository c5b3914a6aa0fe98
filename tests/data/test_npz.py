"""Archives that anyone may have made: odd ones are refused by name, and nothing leads outside."""

import io
import struct
import warnings
import zipfile

import numpy as np
import pytest
from helpers.small_data import write_counters

from zsrl_jax.data import load_dataset
from zsrl_jax.data.formats import npz
from zsrl_jax.errors import DamageError

NAMES = [f"episode_{i}_5.npz" for i in range(4)]
VICTIM = NAMES[2]


@pytest.fixture
def folder(tmp_path):
    write_counters(tmp_path / "data", NAMES)
    return tmp_path / "data"


def test_a_bomb_is_not_inflated(tmp_path):
    raw = io.BytesIO()
    np.lib.format.write_array(raw, np.zeros(10))
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("observation.npy", raw.getvalue())
    data = bytearray((tmp_path / "bomb.npz").read_bytes())
    place = data.index(b"PK\x01\x02") + 24  # the size that the directory claims
    data[place : place + 4] = struct.pack("<I", 4_000_000_000)
    (tmp_path / "bomb.npz").write_bytes(bytes(data))
    with pytest.raises(DamageError, match="at most 1032 bytes per byte"):
        npz.read(tmp_path / "bomb.npz", ["observation"])


def entry(file):
    """Return an archive's bytes, and where the first entry of the list at its end stands."""
    data = bytearray(file.read_bytes())
    return data, data.index(b"PK\1\2")


def repeat_a_key(file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr("observation.npy", b"")


def as_if_encrypted(file):
    data, place = entry(file)
    data[place + 8] |= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (repeat_a_key, "each key once"),
        (as_if_encrypted, "an encrypted one"),
    ],
)
def test_archives_of_other_kinds_are_refused_by_name(folder, spoil, told):
    spoil(folder / VICTIM)
    with pytest.raises(DamageError, match=f"{VICTIM}.*{told}"):
        load_dataset(folder, progress=False)


def test_a_repeated_key_is_refused_in_a_large_archive_too(folder):
    repeat_a_key(folder / VICTIM)
    with pytest.raises(DamageError, match=f"{VICTIM}.*'observation'.*each key once"):
        npz.large_members(folder / VICTIM)


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


def test_an_archive_of_the_64_bit_kind_is_read(tmp_path):
    file, raw = tmp_path / "a.npz", io.BytesIO()
    np.lib.format.write_array(raw, np.arange(5))
    with (
        zipfile.ZipFile(file, "w") as archive,
        archive.open("a.npy", "w", force_zip64=True) as member,
    ):
        member.write(raw.getvalue())
    np.testing.assert_array_equal(npz.read(file, ["a"])["a"], np.arange(5))


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
