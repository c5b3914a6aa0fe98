"""Refused, or left with one line: a signal too soon, hostile descriptions."""

import json
import signal
import subprocess
import sys

import jax.numpy as jnp
import pytest
from helpers.tiny_run import learn, make_run

import zsrl_jax
from zsrl_jax.errors import DataError
from zsrl_jax.files import atomic
from zsrl_jax.runs import checkpoint, step_saves

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
