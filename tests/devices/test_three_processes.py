"""Three processes over loopback: one run, different data, and one of them lost."""

import os
import signal
import subprocess
import sys
import time

import chex
import pytest
from helpers.mesh_cases import small
from helpers.person import ROOT
from helpers.small_data import write_counters
from helpers.two_processes import ended, free_port, lines, params

from zsrl_jax import train

pytestmark = pytest.mark.faults
SCRIPT = """
import sys
from helpers.small_data import draw_noise
from helpers.mesh_cases import small
from zsrl_jax import train
from zsrl_jax.devices import processes
processes.join(sys.argv[1], 3, int(sys.argv[2]))
config = small("aenc", "uniform")
config.seeds = 3
train(config, draw_noise(), sys.argv[3], quiet=True)
"""


def test_three_processes_train_what_one_does(noise_dataset, tmp_path):
    at = f"127.0.0.1:{free_port()}"
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    call = [sys.executable, "-c", SCRIPT, at]
    three = [
        subprocess.Popen([*call, str(i), str(tmp_path / "three")], env=env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for i in range(3)
    ]  # fmt: skip
    config = small("aenc", "uniform")
    config.seeds = 3
    train(config, noise_dataset, tmp_path / "one", quiet=True)
    codes, told = ended(three)
    assert codes == [0, 0, 0], told
    assert not any("gone" in err for _, err in told)  # nobody takes an end for a death
    chex.assert_trees_all_equal(params(tmp_path / "one"), params(tmp_path / "three"))
    assert lines(tmp_path / "one") == lines(tmp_path / "three")


def test_processes_that_read_different_data_are_refused(tmp_path):
    """The same command in folders of their own: the relative path names other files."""
    words = ["run", "--config=cell:cheetah,aenc,uniform,smoke", "--config.data.path=data",
             "--config.seeds=3", f"--workdir={tmp_path / 'run'}", "--num_processes=3",
             f"--coordinator=127.0.0.1:{free_port()}"]  # fmt: skip
    three = []
    for i in range(3):
        folder = tmp_path / str(i)
        write_counters(folder / "data", ["episode_000000_5.npz", f"episode_00000{1 + i}_5.npz"])
        env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
        three.append(
            subprocess.Popen(
                [sys.executable, "-m", "zsrl_jax", *words, f"--process_id={i}"], cwd=folder,
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    codes, told = ended(three)
    assert codes == [2, 2, 2], told
    errors = [line for _, err in told for line in err.splitlines() if "error" in line]
    assert errors == ["error: the processes read different data: all must see the same files"], told
    assert not (tmp_path / "run" / "encoder").exists()


LOOP = """
import sys, time
from zsrl_jax.commands import cli
from zsrl_jax.devices import processes

def main(argv):
    print("up", file=sys.stderr, flush=True)
    while True:  # the exchange of a training loop
        processes.check()
        time.sleep(0.05)

at, index = sys.argv[1], int(sys.argv[2])
sys.argv = sys.argv[:1]
cli.run(main, lambda: processes.join(at, 3, index))
"""


@pytest.mark.parametrize("which", [0, 2])
def test_a_lost_process_ends_the_others_with_one_line(which):
    """The coordinator, and another one; as a command, between two exchanges of a run."""
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    call = [sys.executable, "-c", LOOP, f"127.0.0.1:{free_port()}"]
    three = [
        subprocess.Popen([*call, str(i)], env=env, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
        for i in range(3)
    ]  # fmt: skip
    for process in three:
        while (line := process.stderr.readline()) != "up\n":
            assert line, "it ended before it was up"
    three[which].kill()
    begin = time.monotonic()
    codes, told = ended(three)
    assert time.monotonic() - begin < 60
    assert codes[which] == -signal.SIGKILL
    for i in {0, 1, 2} - {which}:
        assert codes[i] == 75, told[i]
        (line,) = [line for line in told[i][1].splitlines() if line.startswith("error:")]
        assert "of the run is gone" in line and "goes on from the last save" in line
        assert "Traceback" not in told[i][1]
