"""Cells as jobs: when each starts and where, what is told of one that fails, and how they end."""

import os
import signal
import time

import pytest

from zsrl_jax.commands.paper import jobs, launch, progress
from zsrl_jax.commands.paper.cells import Cell, Place, cells_of
from zsrl_jax.devices import signals


def test_jobs_of_an_earlier_command_are_found_in_the_queue(tmp_path, monkeypatch):
    queue = tmp_path / "squeue"
    queue.write_text(
        '#!/bin/sh\n[ "$3" = 7 ] && echo RUNNING || { echo no such job >&2; exit 1; }\n'
    )
    queue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    file = tmp_path / "cell.id"
    assert jobs.queued(file) == ""
    file.write_text("7")
    assert jobs.queued(file) == "7"
    file.write_text("8")
    assert jobs.queued(file) == ""


def test_a_job_that_slurm_stops_waits_for_what_slurm_does(tmp_path, monkeypatch):
    waited, place = [], Place(tmp_path, "smoke")
    cell = cells_of("components", place)[0]

    def stop(cell, place):
        raise signals.Stopped("SIGTERM")

    monkeypatch.setattr(jobs, "do", stop)
    monkeypatch.setattr(jobs.time, "sleep", waited.append)
    for executor, expected in (("local", []), ("slurm", [jobs.GRACE])):
        monkeypatch.setenv("SUBMITIT_EXECUTOR", executor)
        with pytest.raises(signals.Stopped):
            jobs.Job(cell, place)()
        assert waited == expected


def test_jobs_of_this_machine_end_with_the_command_that_started_them(tmp_path):
    submitit = pytest.importorskip("submitit")

    def wait_until_told(file):  # pickled by value: the job does not see this file
        with signals.caught():
            file.touch()
            while True:
                signals.check()
                time.sleep(0.1)

    executor = submitit.AutoExecutor(tmp_path / "%j", cluster="local")
    executor.update_parameters(timeout_min=10)
    job = executor.submit(wait_until_told, tmp_path / "started")
    while not (tmp_path / "started").exists():
        assert not job.done(), job.stderr()
        time.sleep(0.2)
    how = jobs.Jobs("local", 1, {})
    jobs._stop_if_asked([job], how)  # nobody asked
    assert not job.done()
    with signals.caught(), pytest.raises(signals.Stopped):
        os.kill(os.getpid(), signal.SIGTERM)
        jobs._stop_if_asked([job], how)
    assert job.done()


class Pretended:
    """A job that is over at the second look, or fails."""

    job_id = "1"

    def __init__(self, failure=None):
        self.failure, self.looks = failure, 0

    def done(self):
        self.looks += 1
        return self.looks > 1

    def exception(self):
        return self.failure


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """Run `main` and `alpha` of two encoders as jobs that do nothing; return what was started."""

    def run(broken=None, at_once=2, empty=None):
        place, log = Place(tmp_path, "smoke"), []
        monkeypatch.setattr(Cell, "is_done", lambda cell, place: cell != empty)
        encoders, rest = launch.waves([*cells_of("main", place), *cells_of("alpha", place)])

        def submit(cell, slot, cores):
            log.append((cell, slot, cores))
            return Pretended(ValueError("broken") if cell == broken else None)

        monkeypatch.setattr(jobs, "_submitter", lambda place, how: submit)
        monkeypatch.setattr(jobs, "POLL", 0.0)
        cells = [*encoders, *rest]
        how = jobs.Jobs("local", at_once, {}, (frozenset({5}), frozenset({7})))
        bar = progress.Progress(cells, [], place)
        failed = jobs.run_jobs(cells, place, bar, how)
        bar.close()
        return cells, log, failed

    return run


def test_a_cell_starts_when_its_encoder_is_there_and_data_is_collected_once(pretend):
    cells, log, failed = pretend()
    started = [cell for cell, _, _ in log]
    assert not failed and sorted(map(repr, started)) == sorted(map(repr, cells))
    assert started[0] == cells[0] and log[0][2] == frozenset()  # alone: any core is its own
    for place, cell in enumerate(started):
        if cell.encoder_cell() is not None:
            assert cell.encoder_cell() in started[:place]
    assert {(slot, cores) for _, slot, cores in log[1:]} == {
        (0, frozenset({5})),
        (1, frozenset({7})),
    }
    assert next(c for c in started if c.kind != "encoder").kind == "oracle"  # the longest first


def test_a_job_that_leaves_no_results_has_failed(pretend):
    empty = cells_of("main", Place("", "smoke"))[-1]
    assert pretend(empty=empty)[2] == {empty: "job 1 left no results of these settings"}


def test_every_job_of_this_machine_gets_an_accelerator_by_its_name(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    place, seen = Place(tmp_path, "smoke"), []
    cell = cells_of("components", place)[0]

    def look(cell, place):
        return seen.append(os.environ.get("CUDA_VISIBLE_DEVICES"))

    def submitted(executor, job):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as submitit has it for a job
        job()
        return Pretended()

    monkeypatch.setattr(jobs, "do", look)
    monkeypatch.setattr("submitit.AutoExecutor.submit", submitted)
    for chosen, expected in (("2,GPU-77", ["2", "GPU-77", "2"]), ("", ["", "", ""])):
        for slot in range(3):
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
            jobs._submitter(place, jobs.Jobs("local", 3, {}))(cell, slot)
        assert seen == expected
        seen.clear()


def test_a_failed_job_is_told_by_its_error_and_not_by_its_files(tmp_path):
    submitit = pytest.importorskip("submitit")

    def fail():
        raise ValueError("policy.per_task is 0: expected more")

    executor = submitit.AutoExecutor(tmp_path / "%j", cluster="local")
    executor.update_parameters(timeout_min=10)
    error = executor.submit(fail).exception()
    assert jobs.reason(error) == "ValueError: policy.per_task is 0: expected more"
    assert (
        jobs.reason(ValueError("broken")) == "broken" and jobs.reason(ValueError()) == "ValueError"
    )


def test_cells_of_an_encoder_that_failed_are_not_started(pretend):
    cells, _, _ = pretend()
    broken = cells[1]
    _, log, failed = pretend(broken)
    lost = {cell for cell in cells if cell.encoder_cell() == broken}
    assert set(failed) == {broken, *lost} and lost
    assert failed[broken] == "job 1: broken"
    assert {failed[cell] for cell in lost} == {"its encoder failed"}
    assert not lost & {cell for cell, _, _ in log}


def test_a_cpu_runs_a_cell_a_core_where_that_is_faster(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 3}, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda name: 2**30 if name == "SC_PHYS_PAGES" else 100)
    assert launch.cores_for_cells("laptop") == tuple(frozenset({core}) for core in (0, 2, 3))
    assert launch.cores_for_cells("paper") == ()  # its products fill all cores
    monkeypatch.setattr(os, "sysconf", lambda name: 2**30 if name == "SC_PHYS_PAGES" else 7)
    assert len(launch.cores_for_cells("laptop")) == 2  # 7 GiB
    monkeypatch.setattr(launch, "find_spec", lambda name: None)
    assert launch.cores_for_cells("laptop") == ()  # without submitit one after the other


def test_a_job_keeps_to_its_core(tmp_path):
    submitit = pytest.importorskip("submitit")
    place = Place(tmp_path, "smoke")
    cell = cells_of("components", place)[0]
    core = frozenset({min(os.sched_getaffinity(0))})

    def where(job):  # pickled by value, as a job is
        import zsrl_jax.commands.paper.jobs as jobs

        jobs.do = lambda cell, place: sorted(os.sched_getaffinity(0))
        return job()

    executor = submitit.AutoExecutor(tmp_path / "%j", cluster="local")
    executor.update_parameters(timeout_min=10)
    assert executor.submit(where, jobs.Job(cell, place, core)).result() == str(sorted(core))
