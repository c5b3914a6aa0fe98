"""The command itself under real faults: `make test-faults`."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import kills
from helpers.person import tiny_disk

from zsrl_jax.errors import LockedError
from zsrl_jax.files import lock
from zsrl_jax.runs import step_saves

POISON = """
from zsrl_jax.training import encoded
made = encoded._policy_data
def poisoned(*args):
    data = made(*args)
    return data._replace(mean=data.mean.at[1].set(float("nan")))
encoded._policy_data = poisoned
from zsrl_jax.commands import cli, run
cli.run(run.main)
"""


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """A folder with data and a run that nothing ever happened to."""
    folder = tmp_path_factory.mktemp("faults")
    kills.finish(folder, folder / "reference")
    return folder


@pytest.mark.faults
def test_killed_and_killed_inside_a_save_ends_the_same(ground):
    plan = [(("encoder", 10), True), (("policy", 15), False)]
    records = kills.chain(ground, 9, plan)
    assert [bool(record["in_save"]) for record in records][0]
    assert len(records) == 2 and not any(record["different"] for record in records)


DRIVER = """
import sys
from pathlib import Path
from helpers import kills
if __name__ == "__main__":
    kills.finish(Path(sys.argv[1]), Path(sys.argv[1]) / "orphan")
"""


@pytest.mark.faults
def test_a_driver_that_is_killed_takes_its_runs_along(ground):
    call = [sys.executable, "-c", DRIVER, str(ground)]
    with subprocess.Popen(call, cwd=kills.ROOT) as driver:
        wait(driver, lambda: (ground / "orphan" / "encoder").exists())
        driver.kill()
    while True:  # until nobody holds it: a run left behind would, to its end
        with contextlib.suppress(LockedError), lock.held(ground / "orphan"):
            break
        time.sleep(0.01)
    assert not (ground / "orphan" / "results.json").exists()


def wait(process, what):
    while process.poll() is None and not what():
        time.sleep(0.002)


def told(workdir):
    return workdir.with_suffix(".out").read_text()


def copied(ground, name):
    """Copy the reference run, to do harm to the copy."""
    shutil.copytree(ground / "reference", ground / name)
    return ground / name


@pytest.mark.faults
def test_killed_at_fifty_moments_ten_of_them_inside_a_save(ground):
    records = kills.drive(ground, kills=50, inside=16, chains=5)
    assert len(records) == 50 and sum(bool(record["in_save"]) for record in records) >= 10
    places = {record["place"][0] for record in records}
    assert places == {"start", "explorer", "encoder", "tasks", "policy", "agent"}
    assert not [record for record in records if record["different"]]


@pytest.mark.faults
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_signal_saves_and_leaves_with_code_75(ground, name):
    workdir = ground / name
    with kills.start(ground, workdir) as process:
        wait(process, lambda: (workdir / "encoder").exists())
        process.send_signal(signal.Signals[name])
        time.sleep(0.02)
        process.send_signal(signal.SIGTERM)  # a second one, likely inside the save
        assert process.wait() == 75, told(workdir)
    left = time.time() - (workdir / "metrics.jsonl").stat().st_mtime  # since its chunk ended
    print(f"{name}: left {left:.2f} s after the chunk")
    assert left < 5
    assert f"stopped by {name}: the same command again goes on" in told(workdir)
    assert "Traceback" not in told(workdir)
    save = step_saves.newest(workdir / "encoder")
    lines = [line for line in (workdir / "metrics.jsonl").read_text().splitlines() if line]
    assert save.step == json.loads(lines[-1])["step"] and not save.passed
    kills.finish(ground, workdir)
    assert re.search(rf"encoder: goes on from update {save.step}", told(workdir))
    assert kills.differences(ground / "reference", workdir) == []


@pytest.mark.faults
def test_a_disk_that_fills_up_and_one_that_turns_read_only(ground):
    workdir = ground / "disk" / "run"
    with tiny_disk(ground / "disk", "size=1m"):
        for change, cause in (("size=1m", "No space left"), ("size=64m,ro", "Read-only")):
            subprocess.run(["mount", "-o", f"remount,{change}", workdir.parent], check=True)
            call = kills.command(ground, workdir)
            done = subprocess.run(call, cwd=kills.ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 74, done.stderr
            assert cause in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
        subprocess.run(["mount", "-o", "remount,size=64m,rw", workdir.parent], check=True)
        kills.finish(ground, workdir)
        assert kills.differences(ground / "reference", workdir) == []


@pytest.mark.faults
def test_a_quota_on_files(ground):
    workdir = ground / "quota"
    call = ["prlimit", "--fsize=3000", *kills.command(ground, workdir)]
    done = subprocess.run(call, cwd=kills.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 74 and "File too large" in done.stderr.splitlines()[-1], done.stderr
    kills.finish(ground, workdir)
    assert kills.differences(ground / "reference", workdir) == []


@pytest.mark.faults
def test_two_processes_on_one_folder(ground):
    workdir = ground / "shared"
    with kills.start(ground, workdir) as first:
        wait(first, lambda: (workdir / "encoder").exists())
        shutil.copy(workdir.with_suffix(".out"), ground / "first.out")
        with kills.start(ground, workdir) as second:
            assert second.wait() == 2
        assert f"in use by process {first.pid} on" in told(workdir)
        first.send_signal(signal.SIGKILL)
        first.wait()
    kills.finish(ground, workdir)
    assert kills.differences(ground / "reference", workdir) == []


@pytest.mark.faults
def test_other_settings_are_refused_and_forced_on_record(ground):
    workdir = copied(ground, "other")
    call = [*kills.command(ground, workdir), "--config.policy.behaviour=0.5", "--config.seed=0"]
    done = subprocess.run(call, cwd=kills.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "policy.behaviour was 0.0, now 0.5" in done.stderr.splitlines()[-1]
    assert kills.differences(ground / "reference", workdir) == []  # nothing was touched
    done = subprocess.run([*call, "--force"], cwd=kills.ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    (note,) = json.loads((workdir / "results.json").read_text())["forced"]
    assert note["fields"] == {"policy.behaviour": [0.0, 0.5]} and note["stage"] == "policy"


@pytest.mark.faults
def test_a_poisoned_seed_leaves_the_other_as_it_is(ground):
    workdir = ground / "poisoned"
    call = [sys.executable, "-c", POISON, *kills.command(ground, workdir)[3:]]
    for _ in range(2):  # the second time there is nothing left to train
        done = subprocess.run(call, cwd=kills.ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 3, done.stderr
        assert "seed 1 failed: policy, update 1: policy/actor_loss, policy/cri" in done.stderr
    results, clean = (
        json.loads((place / "results.json").read_text())
        for place in (workdir, ground / "reference")
    )
    assert results["returns"][0] == clean["returns"][0]
    assert np.isnan(np.asarray(results["returns"][1], float)).all()
    (failure,) = results["failed"]
    assert (failure["seed"], failure["stage"], failure["step"]) == (1, "policy", 1)


@pytest.mark.faults
def test_two_runs_with_one_seed_and_two_evaluations_are_the_same(ground):
    kills.finish(ground, ground / "twin")
    assert kills.differences(ground / "reference", ground / "twin") == []
    again = copied(ground, "again")
    kills.finish(ground, again)  # evaluates once more
    assert kills.differences(ground / "reference", again) == []
