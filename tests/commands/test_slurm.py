"""On a real SLURM: cells submitted, preempted, requeued and completed; one run of two tasks."""

import json
import subprocess
import sys
import time

import chex
import pytest
from helpers.person import ROOT, command
from helpers.two_processes import arguments, lines, params

from zsrl_jax.commands.paper.cells import Place, cells_of
from zsrl_jax.commands.paper.jobs import Jobs, _submitter, run_jobs
from zsrl_jax.commands.paper.launch import waves
from zsrl_jax.commands.paper.progress import Progress
from zsrl_jax.settings.scales import StudySize

pytestmark = pytest.mark.slurm
HOW = Jobs("slurm", 0, {"slurm_time": 30, "cpus_per_task": 1})


def place_of(root, updates: int) -> Place:
    fields = (
        ("log_every", 5), ("checkpoint_every", 5), ("encoder.updates", 4), ("encoder.dim", 4),
        ("policy.updates", updates), ("tasks.num_subtrajectories", 200), ("data.episodes", 2),
        ("evaluate.episodes", 1), ("data.cache", str(root / "data")),
    )  # fmt: skip
    return Place(root / "out", "smoke", StudySize(("cheetah",), ("fb",), 1), fields)


def test_cells_run_as_jobs_encoders_first(tmp_path):
    place = place_of(tmp_path, 4)
    encoders, rest = waves(cells_of("components", place)[:1])
    cells = [*encoders, *rest]
    bar = Progress(cells, [], place)
    assert run_jobs(cells, place, bar, HOW) == {}
    bar.close()
    assert all(cell.is_done(place) for cell in cells)
    assert len([f for f in (place.root / "jobs").iterdir() if f.is_dir()]) == 2  # a job a cell


def test_tasks_of_a_step_train_one_run(tmp_path):
    """As docs/devices.md has it: srun with two tasks, which meet without a flag."""
    call = ["srun", "-n2", sys.executable, "-m", "experiments.run", *arguments(tmp_path, "two")]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("devices: seed 2 x data 1") == done.stdout.count("results:") == 1
    assert command(*arguments(tmp_path, "one")).returncode == 0
    chex.assert_trees_all_equal(params(tmp_path / "one"), params(tmp_path / "two"))
    assert lines(tmp_path / "one") == lines(tmp_path / "two")  # written once


@pytest.mark.parametrize("how", ["preemption", "time"])
def test_a_job_is_requeued_and_goes_on_from_its_saves(tmp_path, how):
    place = place_of(tmp_path, 20_000)
    cell = cells_of("components", place)[0]
    job = _submitter(place, HOW)(cell, 0)
    log = cell.folder(place) / "metrics.jsonl"

    def steps():
        lines = log.read_text().splitlines() if log.exists() else []
        return [json.loads(x)["step"] for x in lines if "policy/" in x and x.endswith("}")]

    try:
        wait_for(lambda: len(steps()) > 20)
        if how == "preemption":  # a job of a partition that goes first takes the whole node
            call = ["sbatch", "-p", "urgent", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 8"]
            subprocess.run(call, check=True)
        else:  # what SLURM sends before the time is over
            subprocess.run(["scancel", "--signal=USR2", job.job_id], check=True)
        wait_for(lambda: restarts(job.job_id) > 0)
        assert not job.done()
        reached = max(steps())
        again = _submitter(place, HOW)(cell, 0)
        assert again.job_id == job.job_id  # a command that is started anew finds it
        wait_for(lambda: max(steps(), default=0) > reached)
        found = steps()
        assert found == [*range(5, found[-1] + 1, 5)]  # no line is there twice, none is missing
    finally:
        subprocess.run(["scancel", job.job_id], check=True)


def restarts(job: str) -> int:
    """Return how often a job was queued again."""
    told = subprocess.run(["scontrol", "show", "job", job], capture_output=True, text=True).stdout
    return int(told.split("Restarts=")[1].split()[0]) if "Restarts=" in told else 0


def wait_for(condition, seconds: float = 900) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(1)
