"""The project as a person uses it: its folder, its commands, disks with little room."""

import contextlib
import os
import subprocess
import sys
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
