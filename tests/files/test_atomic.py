"""Files and folders appear whole or not at all; what they replace stays until then."""

import os

import pytest

from zsrl_jax.errors import DiskError
from zsrl_jax.files import atomic


def test_a_file_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "a.txt"
    for text in ("first\n", "sécond\n"):
        atomic.write_text(file, text)
        assert file.read_bytes() == text.encode()
    assert [place.name for place in tmp_path.iterdir()] == ["a.txt"]


def test_a_write_that_fails_leaves_the_old_file_and_names_the_cause(tmp_path, monkeypatch):
    file = tmp_path / "a.txt"
    atomic.write_text(file, "old")

    def full(descriptor):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match="cannot write '.*a.txt': No space left on device"):
        atomic.write_bytes(file, b"new")
    assert file.read_text() == "old"


def made(folder, text):
    folder.mkdir()
    (folder / "proof").write_text(text)
    return folder


def test_a_folder_takes_the_place_of_another(tmp_path):
    target = tmp_path / "save"
    for text in ("old", "new"):
        atomic.move_in(made(atomic.part_of(target), text), target)
        assert (target / "proof").read_text() == text
    assert [place.name for place in tmp_path.iterdir()] == ["save"]


def test_a_replacement_cut_off_between_its_renames_is_taken_back(tmp_path):
    target = tmp_path / "save"
    made(tmp_path / f"save{atomic.OLD}", "old")
    atomic.take_back(target, "nothing of this name")
    assert not target.exists()
    atomic.take_back(target, "proof")
    assert (target / "proof").read_text() == "old"


def test_what_a_discarded_link_points_to_stays(tmp_path):
    (tmp_path / "link").symlink_to(made(tmp_path / "kept", "mine"))
    for name in ("link", "link"):  # the second time nothing is there
        atomic.discard(tmp_path / name)
    assert (tmp_path / "kept" / "proof").exists()
    assert [place.name for place in tmp_path.iterdir()] == ["kept"]
