"""One process at a time per folder, and a dead one holds nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zsrl_jax.errors import LockedError
from zsrl_jax.files import lock

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
