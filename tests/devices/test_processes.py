"""Two processes over loopback train one run: by seeds, by rows, killed, and stopped."""

import os
import signal
import subprocess
import sys
import time

import chex
import pytest
from helpers.mesh_cases import small
from helpers.person import ROOT, command
from helpers.two_processes import PATIENCE, arguments, ended, free_port, lines, params, start

from zsrl_jax import train
from zsrl_jax.devices import processes
from zsrl_jax.errors import ConfigError, DamageError, ZsrlError
from zsrl_jax.runs import step_saves


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """A folder with data, and a run of one process."""
    folder = tmp_path_factory.mktemp("hosts")
    done = command(*arguments(folder, "one"))
    assert done.returncode == 0, done.stderr
    return folder


SCRIPT = """
import sys
from helpers.small_data import draw_noise
from helpers.mesh_cases import small
from zsrl_jax import train
from zsrl_jax.devices import processes
processes.join(sys.argv[1], 2, int(sys.argv[2]))
train(small("aenc", "uniform"), draw_noise(), sys.argv[3], quiet=True)
"""


@pytest.mark.whole
def test_two_processes_train_what_one_does(noise_dataset, tmp_path):
    at = f"127.0.0.1:{free_port()}"
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    call = [sys.executable, "-c", SCRIPT, at]
    processes = [
        subprocess.Popen([*call, str(i), str(tmp_path / "two")], env=env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for i in range(2)
    ]  # fmt: skip
    train(small("aenc", "uniform"), noise_dataset, tmp_path / "one", quiet=True)
    codes, told = ended(processes)
    assert codes == [0, 0], told
    chex.assert_trees_all_equal(params(tmp_path / "one"), params(tmp_path / "two"))
    assert lines(tmp_path / "one") == lines(tmp_path / "two")  # written once


@pytest.mark.faults
def test_seeds_over_two_processes_are_bit_equal(ground):
    codes, told = ended(start(arguments(ground, "seeds")))
    assert codes == [0, 0], told
    chex.assert_trees_all_equal(params(ground / "one"), params(ground / "seeds"))
    assert lines(ground / "one") == lines(ground / "seeds")  # written once
    assert "devices: seed 2 x data 1" in told[0][0] and "results:" in told[0][0]
    assert "results:" not in told[1][0] and "encoder" not in told[1][0] + told[1][1]


@pytest.mark.faults
def test_rows_over_two_processes_agree_to_float_error(ground):
    args = arguments(ground, "rows", **{"devices.data": 2, "devices.seed": 1})
    codes, told = ended(start(args))
    assert codes == [0, 0], told
    one, other = (params(ground / name) for name in ("one", "rows"))
    for part in ("encoder", "actor"):
        chex.assert_trees_all_close(one[part], other[part], rtol=1e-3, atol=1e-5)
    assert "devices: seed 1 x data 2" in told[0][0]


def wait_for_save(folder, processes):
    end = time.monotonic() + PATIENCE
    while step_saves.newest(folder / "policy", whole=False).folder is None:
        assert time.monotonic() < end, "no save was made"
        assert all(process.poll() is None for process in processes), ended(processes)
        time.sleep(0.05)


@pytest.fixture(scope="module")
def straight(ground):
    """Return, once for each axis, a longer run that nothing cut off, and the fields it was given.

    By seeds one process makes it; by rows two do, as sums over two halves round differently.
    """
    made = {}

    def make(axis):
        by_rows = {"policy.updates": 200, "devices.data": 2, "devices.seed": 1}
        fields = by_rows if axis == "rows" else {"policy.updates": 2000}
        if axis not in made:
            args = arguments(ground, f"straight_{axis}", **fields)
            codes, told = ended(start(args, num=2 if axis == "rows" else 1))
            assert set(codes) == {0}, told
            made[axis] = ground / f"straight_{axis}", fields
        return made[axis]

    return make


@pytest.mark.faults
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("axis", ["seeds", "rows"])
def test_one_is_killed_and_the_run_goes_on(ground, straight, axis, which):
    whole, fields = straight(axis)
    cut = ground / f"killed_{axis}_{which}"
    args = arguments(ground, cut.name, **fields)
    processes = start(args)
    wait_for_save(cut, processes)
    processes[which].kill()
    codes, told = ended(processes)  # the other one does not wait for ever
    assert codes[which] == -signal.SIGKILL and codes[1 - which] == 75, told
    codes, told = ended(start(args))
    assert codes == [0, 0] and "policy: goes on from update" in told[0][0], told
    chex.assert_trees_all_equal(params(whole), params(cut))


@pytest.mark.faults
@pytest.mark.parametrize("which", [0, 1])
def test_a_signal_to_one_stops_all_after_the_same_chunk(ground, which):
    name = f"stopped_{which}"
    args = arguments(ground, name, **{"policy.updates": 2000})
    processes = start(args)
    wait_for_save(ground / name, processes)
    processes[which].send_signal(signal.SIGTERM)
    codes, told = ended(processes)
    assert codes == [75, 75], told
    assert "stopped by SIGTERM" in told[0][1] and "stopped by" not in told[1][1]
    save = step_saves.newest(ground / name / "policy")
    assert save.step == lines(ground / name)[-1]["step"]
    step = save.step + 10
    again = arguments(ground, name, **{"policy.updates": step})
    assert command(*again).returncode == 0  # by one process alone
    assert (
        command(*arguments(ground, f"{name}_straight", **{"policy.updates": step})).returncode == 0
    )
    chex.assert_trees_all_equal(params(ground / f"{name}_straight"), params(ground / name))


@pytest.mark.faults
def test_what_the_first_refuses_all_refuse(ground):
    args = arguments(ground, "one", **{"policy.behaviour": 0.5})
    codes, told = ended(start(args))
    assert codes == [2, 2], told
    assert "policy.behaviour was" in told[0][1] and "error" not in told[1][1]


@pytest.mark.faults
def test_processes_of_different_settings_are_refused_before_any_data_is_made(ground):
    args = arguments(ground, "differ")
    processes = start(args, each=lambda i: [f"--config.data.episodes={2 + i}"])
    codes, told = ended(processes)
    assert codes == [2, 2], told
    assert "have different settings" in told[0][1] and "error" not in told[1][1]
    assert len(list((ground / "data" / "cheetah").iterdir())) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("127.0.0.1:1", 2, None), "need all of"),
        (("127.0.0.1:1", 2, 2), "ids from 0 below"),
        (("127.0.0.1", 2, 1), "expected HOST:PORT"),
    ],
)
def test_flags_that_make_no_sense_are_refused(given, told):
    with pytest.raises(ConfigError, match=told):
        processes.join(*given)


@pytest.mark.parametrize("tasks", [{}, {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
                                   {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}])  # fmt: skip
def test_a_single_task_of_slurm_is_alone(tasks, monkeypatch):
    """Also in a batch script, which sees the number of tasks that srun would start."""
    for name in ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in tasks.items():
        monkeypatch.setenv(name, value)
    processes.join(None, None, None)
    assert not processes.several() and processes.is_first()


def test_followers_raise_what_the_first_raised():
    damage = DamageError("episode.npz", "action", "6 columns", "5")
    cases = {DamageError: damage, OSError: OSError(28, "no room"),
             KeyboardInterrupt: KeyboardInterrupt(), ZsrlError: ZeroDivisionError("x")}  # fmt: skip
    for kind, error in cases.items():
        word = {"error": type(error).__name__, "text": str(error)}
        word["errno"] = getattr(error, "errno", None)
        with pytest.raises(kind) as caught:
            processes._take(word)
        assert processes.is_shared(caught.value) and str(error) in str(caught.value)
        assert getattr(caught.value, "errno", None) == word["errno"]


def test_one_process_does_the_obvious():
    entered = []

    class Context:
        def __enter__(self):
            entered.append("in")

        def __exit__(self, *_):
            entered.append("out")

    with processes.leading(Context()):
        assert processes.first(lambda: 3) == processes.in_turn(lambda: 3) == 3
    assert entered == ["in", "out"]
    processes.check()
