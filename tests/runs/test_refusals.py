"""Refused, or left with one line: a folder in use, a signal too soon, hostile descriptions."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest
from helpers.tiny_run import learn, make_run

import zsrl_jax
from zsrl_jax.errors import DataError, LockedError
from zsrl_jax.files import atomic, lock
from zsrl_jax.runs import checkpoint, step_saves

HOLD = """
import sys, time
from pathlib import Path
sys.modules["zsrl_jax"] = type(sys)("zsrl_jax"); sys.modules["zsrl_jax"].__path__ = [sys.argv[1]]
from zsrl_jax.files import lock
with lock.held(sys.argv[2]):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_process_for_each_folder_and_a_dead_one_holds_nothing(tmp_path):
    package = str(Path(lock.__file__).parents[1])
    call = [sys.executable, "-c", HOLD, package, str(tmp_path)]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        told = f"in use by process {other.pid} on "
        with pytest.raises(LockedError, match=told), lock.held(tmp_path):
            pass
        other.send_signal(signal.SIGKILL)
        other.wait()
    with lock.held(tmp_path):
        assert str(os.getpid()) in (tmp_path / ".lock").read_text()
    with lock.held(tmp_path):
        pass


def test_a_folder_made_for_a_lock_goes_with_it_where_nothing_came_of_it(tmp_path):
    with pytest.raises(ValueError), lock.held(tmp_path / "a" / "b"):
        raise ValueError
    assert not (tmp_path / "a" / "b").exists()
    with lock.held(tmp_path / "c"):
        (tmp_path / "c" / "kept").touch()
    assert (tmp_path / "c" / "kept").exists()
    with lock.held(tmp_path / "c"):
        (tmp_path / "c" / "kept").unlink()
    assert (tmp_path / "c").is_dir()  # it was there before


READING = """
import signal, time
from zsrl_jax.commands import cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
cli.run(lambda argv: (print("reading", flush=True), time.sleep(600)))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGUSR1, 75), (signal.SIGINT, 130)])
def test_a_signal_before_there_is_anything_to_save_is_told_too(number, code):
    call, pipe = [sys.executable, "-c", READING], subprocess.PIPE
    with subprocess.Popen(call, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout.readline() == "reading\n"
        process.send_signal(number)
        _, told = process.communicate()
    assert process.returncode == code and told.startswith("\nstopped") and told.count("\n") == 2


def test_json_of_a_manifest_runs_nothing(tmp_path):
    """A pickle in place of any file, and a manifest that points elsewhere, are refused."""
    canary = tmp_path / "canary"
    pickled = b"cposix\nsystem\n(S'touch " + str(canary).encode() + b"'\ntR."
    learn(make_run(tmp_path, updates=40))
    newest, older = (step_saves.step_folder(tmp_path / "policy", step) for step in (40, 20))
    atomic.discard(older)
    for file in [f for f in newest.rglob("*") if f.is_file()]:
        good = file.read_bytes()
        file.write_bytes(pickled)
        assert step_saves.newest(tmp_path / "policy").folder is None
        file.write_bytes(good)
    manifest = json.loads((newest / "manifest.json").read_text())
    files = manifest["files"] | {"../../../secret": "0" * 32}
    checkpoint.write_manifest(newest, manifest["meta"], files)  # with a checksum that is right
    assert "'../../../secret' is missing" in step_saves.newest(tmp_path / "policy").passed[0]
    assert not canary.exists()


CONFIG = {"encoder": {"name": "fb"}, "tasks": {"sampler": "btd"}}


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"tree": {"a": [[3], "object"]}, "config": CONFIG},
        {"tree": {"a": [[-3], "float32"]}, "config": CONFIG},
        {"tree": {"a": [[3], "no dtype"]}, "config": CONFIG},
        {"tree": {"a": [[3], "float32"]}, "config": {"encoder": {"name": "__class__"}}},
        {"tree": {"a": [[3], "float32"]}, "config": {**CONFIG, "encoder": {"name": "../fb"}}},
        {"tree": {"a": [[3], "float32"]}, "config": "import os"},
        {"tree": {"a": [[4], "float32"]}, "config": CONFIG},
        {"tree": {"a": [[3], "float32"]}, "config": CONFIG},
    ],
)
def test_an_agent_that_is_described_as_none_of_ours_is_refused(tmp_path, meta):
    checkpoint.save(tmp_path / "agent", {"a": jnp.ones(3)}, meta)
    with pytest.raises(DataError, match=str(tmp_path)):
        zsrl_jax.load(tmp_path)
