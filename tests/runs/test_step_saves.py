"""Saves of a stage: damage of any file is noticed, named, and the newest good one is used."""

import shutil

import jax.numpy as jnp
import numpy as np
import pytest

from zsrl_jax.runs import checkpoint, step_saves

TREE = {"a": jnp.arange(2000.0), "b": {"c": jnp.ones((2, 3), jnp.int32)}}


def write(stage, *steps):
    good: list[int] = []
    for step in steps:
        good = step_saves.write(stage, step, {**TREE, "a": TREE["a"] + step}, {"x": 1}, good)
    return good


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    stage = tmp_path_factory.mktemp("saves") / "encoder"
    assert write(stage, 20, 40) == [20, 40]
    return stage


DAMAGE = {
    "flipped": lambda f: f.write_bytes(_flip(f.read_bytes())),
    "truncated": lambda f: f.write_bytes(f.read_bytes()[:-1]),
    "zeroed": lambda f: f.write_bytes(bytes(len(f.read_bytes()))),
    "emptied": lambda f: f.write_bytes(b""),
    "deleted": lambda f: f.unlink(),
}


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", DAMAGE)
def test_each_file_damaged_falls_back_and_names_it(pair, tmp_path, damage):
    newest = step_saves.step_folder(pair, 40)
    names = [f.relative_to(newest) for f in sorted(newest.rglob("*")) if f.is_file()]
    assert {"manifest.json"} < {str(n) for n in names} and len(names) > 5
    for name in names:
        stage = tmp_path / "encoder"
        shutil.rmtree(stage, ignore_errors=True)
        shutil.copytree(pair, stage)
        file = step_saves.step_folder(stage, 40) / name
        if not file.stat().st_size and damage != "deleted":
            file.write_bytes(b"x")
        else:
            DAMAGE[damage](file)
        save = step_saves.newest(stage)
        assert save.step == 20 and save.folder is not None
        assert len(save.passed) == 1 and f"file '{name}'" in save.passed[0]
        back = checkpoint.restore(save.folder, TREE)
        np.testing.assert_array_equal(back["a"], TREE["a"] + 20)


def test_every_single_bit_of_a_manifest_counts(pair, tmp_path):
    stage = tmp_path / "encoder"
    shutil.copytree(step_saves.step_folder(pair, 40), step_saves.step_folder(stage, 40))
    file = step_saves.step_folder(stage, 40) / "manifest.json"
    good = file.read_bytes()
    meta = step_saves.newest(stage, whole=False).meta
    for place in range(len(good)):
        file.write_bytes(good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :])
        save = step_saves.newest(stage, whole=False)
        assert save.folder is None or save.meta == meta
    file.write_bytes(good)
    assert step_saves.newest(stage).step == 40


def test_empty_temporary_and_half_copied_folders_are_ignored(pair, tmp_path):
    stage = tmp_path / "encoder"
    shutil.copytree(pair, stage)
    step_saves.step_folder(stage, 80).mkdir()
    shutil.copytree(step_saves.step_folder(stage, 40), stage / "step_00000060.part")
    half = step_saves.step_folder(stage, 100)
    shutil.copytree(step_saves.step_folder(stage, 40), half)
    shutil.rmtree(half / "tree" / "ocdbt.process_0")
    renamed = step_saves.step_folder(stage, 90)  # whole, but not of the step it claims
    shutil.copytree(step_saves.step_folder(stage, 40), renamed)
    (stage / "step_00000070").write_text("a file")
    (stage / "notes").mkdir()
    save = step_saves.newest(stage)
    assert save.step == 40 and len(save.passed) == 4
    assert step_saves.write(stage, 80, TREE, {}, [40]) == [40, 80]
    left = sorted(f.name for f in stage.iterdir())
    assert left == ["notes", "step_00000040", "step_00000080"]
    assert step_saves.newest(stage).passed == ()


def test_the_newest_two_good_ones_are_kept(tmp_path):
    stage = tmp_path / "policy"
    write(stage, 20, 40, 60)
    assert [step for step, _ in step_saves.steps(stage)] == [60, 40]
    (step_saves.step_folder(stage, 60) / "manifest.json").unlink()
    save = step_saves.newest(stage)
    assert save.step == 40
    step_saves.write(stage, 50, TREE, {}, [save.step])  # the damaged 60 does not push 40 out
    assert [step for step, _ in step_saves.steps(stage)] == [50, 40]


def test_none_good_is_none(tmp_path):
    assert step_saves.newest(tmp_path / "nothing").folder is None
    step_saves.step_folder(tmp_path, 20).mkdir()
    save = step_saves.newest(tmp_path)
    assert save.folder is None and "manifest.json" in save.passed[0]


def test_links_and_strangers_are_refused(pair, tmp_path):
    """A checkpoint from elsewhere cannot make us read outside of its folder."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for number, plant in enumerate((
        lambda f: (f / "tree" / "extra").symlink_to(secret),
        lambda f: (f / "tree" / "sub").symlink_to(tmp_path, target_is_directory=True),
        lambda f: (f / "tree" / "more.bin").write_bytes(b"x"),
        lambda f: ((f / "tree" / "_METADATA").unlink(),
                   (f / "tree" / "_METADATA").symlink_to(secret)),
    )):  # fmt: skip
        stage = tmp_path / str(number)
        shutil.copytree(pair, stage)
        plant(step_saves.step_folder(stage, 40))
        save = step_saves.newest(stage)
        assert save.step == 20 and len(save.passed) == 1
    stage = tmp_path / "linked"
    stage.mkdir()
    step_saves.step_folder(stage, 40).symlink_to(step_saves.step_folder(pair, 40))
    assert step_saves.newest(stage).folder is None
    step_saves.write(stage, 40, TREE, {}, [])
    assert step_saves.newest(stage).step == 40 and step_saves.newest(pair).step == 40
