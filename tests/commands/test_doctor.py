"""The doctor says what is broken, in plain words, and its exit code says that it is."""

import importlib.metadata
import shutil
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from zsrl_jax.commands import doctor
from zsrl_jax.data.formats import exorl
from zsrl_jax.files import lock
from zsrl_jax.runs import checkpoint, step_saves


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a finished run and four short episodes."""
    run, buffer = tmp_path / "runs" / "cheetah_fb_btd", tmp_path / "runs" / "data" / "buffer"
    buffer.mkdir(parents=True)
    good: list[int] = []
    for step in (20, 40):
        good = step_saves.write(run / "encoder", step, {"a": jnp.ones(3)}, {}, good)
    checkpoint.save(run / "agent", {"a": jnp.ones(3)}, {})
    (run / "results.json").write_text("{}")
    draw = np.random.default_rng(0)
    for index in range(4):
        exorl.write_episode(buffer, index, *(draw.normal(size=(n, 2)) for n in (6, 5, 6)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZSRL_DATA", raising=False)
    return tmp_path


def told(capsys, *args):
    code = doctor.main(["doctor", *map(str, args)])
    return code, capsys.readouterr().out


def test_all_is_well(home, capsys):
    code, text = told(capsys)
    assert code == 0 and "BROKEN" not in text and text.endswith("all is well\n")
    first = text.splitlines()[0]
    assert "dm_control" in first and importlib.metadata.version("mujoco") in first
    for words in ("devices: ", "memory: ", "disk: ", "4 episodes, 4 of 4 opened are whole",
                  "finished; saves encoder 40, encoder 20, agent"):  # fmt: skip
        assert words in text


def test_a_damaged_save_and_a_cut_off_episode_are_named(home, capsys):
    victim = step_saves.step_folder(home / "runs/cheetah_fb_btd/encoder", 40) / "tree" / "_METADATA"
    victim.write_bytes(victim.read_bytes()[:-1])
    (home / "runs/cheetah_fb_btd/agent/tree/_METADATA").unlink()
    episode = home / "runs/data/buffer/episode_000002_5.npz"
    episode.write_bytes(episode.read_bytes()[:100])
    code, text = told(capsys, home / "runs")
    assert code == 1
    assert "file 'tree/_METADATA' is not what was written; an older save is good" in text
    assert "agent' is damaged: file 'tree/_METADATA' is missing; the same command again" in text
    assert str(episode) in text and "3 of 4 opened are whole" in text
    shutil.rmtree(step_saves.step_folder(home / "runs/cheetah_fb_btd/encoder", 20))
    assert "the stage starts anew" in told(capsys)[1]


def test_a_run_at_work_is_left_alone(home, capsys):
    with lock.held(home / "runs/cheetah_fb_btd"):
        code, text = told(capsys)
    assert code == 0 and "is in use by" in text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock.fcntl, "flock", _taken)
        code, text = told(capsys)
    assert code == 0 and "is in use by" in text


def _taken(*_):
    raise BlockingIOError


def test_a_pair_that_does_not_fit_is_the_first_line(home, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "zsrl_jax.envs", None)  # as when mujoco breaks its import
    code, text = told(capsys)
    assert code == 1 and text.startswith("BROKEN dm_control")
    assert "pip install 'dm_control" in text.splitlines()[0]


def test_a_missing_package_a_full_disk_and_little_memory_are_told(home, capsys, monkeypatch):
    real = importlib.metadata.version

    def version(name):
        if name == "optax":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(doctor, "LITTLE_MEMORY", 1e6)
    monkeypatch.setattr(doctor, "LITTLE_DISK", 1e9)
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", _full)
    code, text = told(capsys)
    assert code == 1 and "optax missing" in text and "takes no files" in text
    warned = [line.split()[1] for line in text.splitlines() if line.startswith("warn")]
    assert set(warned) - {"films:"} == {"memory:", "disk:"}  # films: where there is no ffmpeg


def _full(**_):
    raise OSError(28, "No space left on device")


def test_a_folder_that_does_not_exist_is_told(capsys):
    assert doctor.main(["doctor", "nowhere/at/all"]) == 2
    assert "nowhere/at/all" in capsys.readouterr().err
    assert not Path("nowhere").exists()
