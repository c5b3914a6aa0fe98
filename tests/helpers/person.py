"""The project as a person uses it: its folder, its commands, disks with little room."""

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def tiny_disk(folder, options):
    """Mount a file system of memory with some options, where that is allowed."""
    folder.mkdir()
    call = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(call, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system of its own needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def command(*args, module="experiments.run", cwd=ROOT, **env):
    """Run a command of the project as a person would, and return what it printed."""
    call = [sys.executable, "-m", module, *map(str, args)]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", **env}
    env.pop("ZSRL_DATA", None)
    return subprocess.run(call, cwd=cwd, env=env, capture_output=True, text=True, timeout=500)


def refused(*args, module="experiments.run"):
    """Run a command that ends before it computes; return what it printed.

    As `command`, but its process is forked from one that has done the imports, most of its time.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        words = {"module": module, "args": [*map(str, args)], "cwd": str(ROOT)}
        zygote = _zygote()
        print(
            json.dumps({**words, "out": str(out), "err": str(err)}), file=zygote.stdin, flush=True
        )
        code = json.loads(zygote.stdout.readline())
        return subprocess.CompletedProcess(words["args"], code, out.read_text(), err.read_text())


@functools.cache
def _zygote():
    """Start the process that others are forked from; it ends with this one, when its input does."""
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    env.pop("ZSRL_DATA", None)
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *env.get("PYTHONPATH", "").split(os.pathsep)])
    call = [sys.executable, str(Path(__file__).with_name("zygote.py"))]
    pipe = subprocess.PIPE
    return subprocess.Popen(call, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, text=True)
