"""What is saved comes back to the bit; what was damaged is refused by name."""

import gc
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.person import tiny_disk

from zsrl_jax.errors import DataError, DiskError
from zsrl_jax.runs import checkpoint

TREE = {"a": jnp.arange(5.0), "b": {"c": jnp.ones((2, 3), jnp.int32)}}


def test_round_trip_and_replacement(tmp_path):
    checkpoint.save(tmp_path / "stage", TREE, {"step": 1})
    checkpoint.save(tmp_path / "stage", {**TREE, "a": TREE["a"] + 1}, {"step": 2})
    assert checkpoint.read_meta(tmp_path / "stage") == {"step": 2}
    back = checkpoint.restore(tmp_path / "stage", TREE)
    np.testing.assert_array_equal(back["a"], np.arange(5.0) + 1)
    np.testing.assert_array_equal(back["b"]["c"], TREE["b"]["c"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["stage"]


def test_every_file_is_checked(tmp_path):
    folder = tmp_path / "stage"
    checkpoint.save(folder, TREE, {})
    files = [f for f in folder.rglob("*") if f.is_file() and f.name != "manifest.json"]
    assert files
    for file in files:
        good = file.read_bytes()
        file.write_bytes(bytes([good[0] ^ 1]) + good[1:] if good else b"x")
        with pytest.raises(DataError, match=f"damaged: file '.*{file.name}'"):
            checkpoint.restore(folder, TREE)
        file.write_bytes(good)
    checkpoint.restore(folder, TREE)


def test_a_save_cut_off_between_its_renames_is_mended(tmp_path):
    checkpoint.save(tmp_path / "stage", TREE, {"step": 1})
    (tmp_path / "stage").rename(tmp_path / "stage.old")
    assert checkpoint.read_meta(tmp_path / "stage") == {"step": 1}
    np.testing.assert_array_equal(checkpoint.restore(tmp_path / "stage", TREE)["a"], TREE["a"])


def test_nothing_there(tmp_path):
    assert checkpoint.read_meta(tmp_path / "none") is None
    with pytest.raises(DataError, match="no checkpoint"):
        checkpoint.restore(tmp_path / "none", TREE)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="file 'manifest.json' is missing or not"):
        checkpoint.read_meta(tmp_path / "broken")


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_tree_of_other_shapes_is_refused_not_cut(tmp_path):
    checkpoint.save(tmp_path / "stage", TREE, {})
    for other, told in (
        ({**TREE, "a": jnp.zeros(4)}, r"'a' has shape \(5,\), \(4,\) is asked for"),
        ({**TREE, "a": jnp.zeros(6)}, r"'a' has shape \(5,\), \(6,\) is asked for"),
        ({"a": TREE["a"]}, r"'b.c' has shape \(2, 3\), none is asked for"),
    ):
        with pytest.raises(DataError, match=f"does not fit this config: array {told}"):
            checkpoint.restore(tmp_path / "stage", other)
    gc.collect()  # what was left under way says nothing of its own


FULL = """
import sys, numpy as np
from zsrl_jax.runs import checkpoint
from zsrl_jax.errors import DiskError
tree = {f"a{i}": np.random.default_rng(i).random((300, 200), np.float32) for i in range(40)}
for _ in range(3):
    try:
        checkpoint.save(sys.argv[1] + "/stage", tree, {})
    except DiskError as error:
        print(error)
"""


def told_once(call, cause):
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert done.stdout.count(cause) == done.stdout.count("\n") == 3
    assert done.stderr == ""


def test_a_full_disk_is_told_once_and_not_by_every_thread_that_was_writing(tmp_path):
    with tiny_disk(tmp_path / "disk", "size=1m"):
        told_once([sys.executable, "-c", FULL, str(tmp_path / "disk")], "No space left on device")


def test_a_quota_is_told_once_too(tmp_path):
    call = ["prlimit", "--fsize=200", sys.executable, "-c", FULL, str(tmp_path)]
    told_once(call, "File too large")


def test_an_error_without_a_cause_asks_the_disk(tmp_path, monkeypatch):
    def fill(part, tree, meta):
        with pytest.raises(OSError, match="No space left"):
            (part / "full").write_bytes(bytes(2**21))
        raise RuntimeError("Event loop is closed")  # what one of Orbax's threads may say first

    monkeypatch.setattr(checkpoint, "_write", fill)
    with (
        tiny_disk(tmp_path / "disk", "size=1m"),
        pytest.raises(DiskError, match="stage': No space left on device; what was saved"),
    ):
        checkpoint.save(tmp_path / "disk" / "stage", TREE, {})
