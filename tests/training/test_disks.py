"""A stage on disks that fill up, turn read-only, have a quota or lose bits."""

import contextlib
import resource
import subprocess

import pytest
from helpers.person import tiny_disk
from helpers.tiny_run import equal, learn, lines, make_run

from zsrl_jax.errors import DiskError
from zsrl_jax.runs import step_saves


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clean")
    return learn(make_run(folder)), lines(folder)


def test_a_damaged_save_is_told_and_the_run_still_ends_the_same(clean, tmp_path, capsys):
    learn(make_run(tmp_path, updates=40))
    file = step_saves.step_folder(tmp_path / "policy", 40) / "tree" / "_METADATA"
    file.write_bytes(file.read_bytes()[:-5])
    assert equal(learn(make_run(tmp_path)), clean[0]) and lines(tmp_path) == clean[1]
    told = capsys.readouterr().err
    assert "step_00000040' is damaged: file 'tree/_METADATA'" in told and "it is skipped" in told


@contextlib.contextmanager
def file_limit(size):
    """Let no file grow beyond a size: what a quota does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 200])  # of a metrics line, and inside a save
def test_a_quota_leaves_the_last_save_and_names_the_cause(clean, tmp_path, size):
    learn(make_run(tmp_path, updates=40))
    with file_limit(size), pytest.raises(DiskError, match="File too large"):
        run = make_run(tmp_path, updates=60)
        if size:  # so that the metrics are not the first to fail
            run.log.write = lambda *_: None
        learn(run)
    save = step_saves.newest(tmp_path / "policy")
    assert save.step == 40 and not save.passed
    assert equal(learn(make_run(tmp_path)), clean[0])
    assert not list((tmp_path / "policy").glob("*.part"))  # what was left of it is gone by now


@pytest.mark.parametrize(
    ("options", "told"), [("size=4k", "No space left"), ("ro", "Read-only file system")]
)
def test_a_full_or_read_only_disk_leaves_the_last_save(clean, tmp_path, options, told):
    folder = tmp_path / "disk"
    with tiny_disk(folder, "size=4m"):
        learn(make_run(folder, updates=40))
        if options == "ro":
            remount(folder, "ro")
        else:
            (folder / "ballast").write_bytes(b"")
            with contextlib.suppress(OSError), (folder / "ballast").open("wb") as file:
                while True:
                    file.write(bytes(4096))
                    file.flush()
        with pytest.raises((DiskError, OSError), match=told):
            learn(make_run(folder))
        save = step_saves.newest(folder / "policy")
        assert save.step == 40 and not save.passed
        if options == "ro":
            remount(folder, "rw")
        else:
            (folder / "ballast").unlink()
        assert equal(learn(make_run(folder)), clean[0]) and lines(folder) == clean[1]


def remount(folder, how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)
