"""Processes that watch each other: an end is told, a death is told apart from it."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from helpers.person import ROOT

from zsrl_jax.commands import cli
from zsrl_jax.devices import peers, processes

SCRIPT = """
import socket, sys, time
import peers  # by itself: it needs nothing else of the package

class Store:  # a folder in place of JAX's key-value store
    def key_value_set(self, name, value):
        (place / "at.part").write_text(value)
        (place / "at.part").rename(place / "at")

    def blocking_key_value_get(self, name, milliseconds):
        while not (place / "at").exists():
            time.sleep(0.02)
        return (place / "at").read_text()

from pathlib import Path
index, place, how = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
peers.GRACE = 0.1
if index == 1:  # a stranger knocks first
    port = int(Store().blocking_key_value_get("", 0).split()[0])
    socket.create_connection(("127.0.0.1", port)).sendall(b"GET / HTTP/1.1\\r\\n\\r\\n" * 9)
peers.watch(index, 3, "127.0.0.1:1", Store())
print("up", flush=True)
if how == "wait":
    time.sleep(300)
else:
    sys.stdin.readline()
"""


def begin(tmp_path, *hows):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "zsrl_jax" / "devices")}
    found = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, str(i), str(tmp_path), how], env=env,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)
        for i, how in enumerate(hows)
    ]  # fmt: skip
    assert [process.stdout.readline() for process in found] == ["up\n"] * len(hows)
    return found


@pytest.mark.parametrize(
    ("which", "words"),
    [(0, "the first process of the run is gone"), (2, "process 2 of the run is gone")],
)
def test_a_death_ends_the_others_with_one_line(tmp_path, which, words):
    found = begin(tmp_path, "wait", "wait", "wait")
    os.kill(found[which].pid, signal.SIGKILL)
    told = [process.communicate(timeout=120)[1] for process in found]
    assert [process.returncode for process in found] == [
        -signal.SIGKILL if i == which else 75 for i in range(3)
    ]
    line = f"error: {words}: the same command again, in all of them, goes on from the last save"
    assert [told[i].strip() for i in range(3) if i != which] == [line, line]


def test_a_death_is_told_once(monkeypatch, capfd):
    """By the watch, or by the main thread that noticed it in an exchange."""
    monkeypatch.setattr(peers, "_said", threading.Lock())
    monkeypatch.setattr(peers.os, "_exit", lambda code: None)
    monkeypatch.setattr(processes, "several", lambda: True)
    peers._leave("process 2 of the run is gone")
    cli._tell("error: another process of the run is gone", ValueError())
    told = capfd.readouterr().err.split("\n")
    assert [line[:35] for line in told if line] == ["error: process 2 of the run is gone"]
    monkeypatch.setattr(peers, "_said", threading.Lock())
    cli._tell("error: another process of the run is gone", ValueError())
    peers._leave("process 2 of the run is gone")
    assert capfd.readouterr().err == "error: another process of the run is gone\n"


def test_an_end_is_no_death(tmp_path):
    found = begin(tmp_path, "read", "read", "read")
    for process in found:  # one after the other
        assert process.communicate("go on\n", timeout=120)[1] == "" and process.returncode == 0


SLOW = """
import sys, threading, time
from zsrl_jax.commands import cli
from zsrl_jax.devices import peers, processes

class Slow:  # standard output that takes its time, as a full pipe does
    def flush(self):
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.5)

processes.several, processes.is_first = (lambda: True), (lambda: False)
processes.is_lost = lambda error: True
sys.stdout = Slow()

def main(argv):
    threading.Thread(target=peers._leave, args=("process 1 of the run is gone",)).start()
    while not peers._said.locked():
        time.sleep(0.01)
    raise RuntimeError("UNAVAILABLE")

sys.argv = sys.argv[:1]
cli.run(main)
"""


def test_a_process_does_not_end_before_the_thread_that_noticed_has_said_why(tmp_path):
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SLOW], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 75, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "process 1 of the run is gone" in line
