"""Metrics: whole lines only, steps unique and increasing after any resume."""

import pytest
from tensorboardX.proto.event_pb2 import Event

from zsrl_jax.training import metrics


def steps(workdir):
    return [(line["step"], *(k for k in line if "/" in k)) for line in metrics.read(workdir)]


def board(workdir):
    """Read the steps of TensorBoard's files: records of length, checksum, event, checksum."""
    (file,) = (workdir / "tensorboard").iterdir()
    data, found = file.read_bytes(), []
    while data:
        size = int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12 : 12 + size])
        found += [(event.step, value.tag) for value in event.summary.value]
        data = data[size + 16 :]
    return found


def test_a_run_that_goes_on_cuts_what_no_save_stands_behind(tmp_path):
    log = metrics.Log(tmp_path)
    log.write(20, {"encoder/loss": [1.0, 3.0]})
    kept = log.position()
    log.write(40, {"encoder/loss": [1.0, float("nan")]})
    log.close()
    assert steps(tmp_path) == [(20, "encoder/loss"), (40, "encoder/loss")]
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 60, "poli')  # cut off by a kill
    assert len(metrics.read(tmp_path)) == 2
    log = metrics.Log(tmp_path)
    log.go_on_from(kept)
    assert len(metrics.read(tmp_path)) == 2  # nothing is cut before there is something new
    assert log.position() == kept
    log.write(30, {"encoder/loss": [1.0, 2.0]})
    log.close()
    assert steps(tmp_path) == [(20, "encoder/loss"), (30, "encoder/loss")]
    assert board(tmp_path) == [(20, "encoder/loss"), (30, "encoder/loss")]


def test_a_fresh_start_begins_an_empty_file(tmp_path):
    for step in (20, 40):
        log = metrics.Log(tmp_path)
        log.write(step, {"policy/q": [1.0]})
        log.close()
        assert steps(tmp_path) == [(step, "policy/q")]


@pytest.mark.parametrize("lost", [3, 20])
def test_lost_lines_are_told_and_a_partial_one_goes(tmp_path, lost, capsys):
    log = metrics.Log(tmp_path)
    log.write(20, {"policy/q": [1.0]})
    log.write(40, {"policy/q": [1.0]})
    kept = log.position()
    log.close()
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-lost])
    log = metrics.Log(tmp_path)
    log.go_on_from(kept)
    log.write(60, {"policy/q": [1.0]})
    log.close()
    assert steps(tmp_path) == [(20, "policy/q"), (60, "policy/q")]
    assert "lines are lost" in capsys.readouterr().out


def test_what_a_finished_stage_tells_again_is_written_once(tmp_path):
    """A run that goes on from the encoder's last save comes by its report again and again."""
    log = metrics.Log(tmp_path)
    log.write(60, {"encoder/loss": [1.0]})
    kept, r2 = log.position(), {"encoder/r2_walk": [0.5, float("nan")]}
    log.report(60, r2)
    log.write(0, {"tasks/log_likelihood": [1.0]})
    log.write(20, {"policy/q": [1.0]})
    log.close()
    before = (tmp_path / "metrics.jsonl").read_bytes()
    for _ in range(2):
        log = metrics.Log(tmp_path)
        log.go_on_from(kept)
        log.report(60, r2)
        assert (tmp_path / "metrics.jsonl").read_bytes() == before
    log.write(0, {"tasks/log_likelihood": [2.0]})
    log.close()
    assert steps(tmp_path) == [(60, "encoder/loss"), (60, "encoder/r2_walk"),
                               (0, "tasks/log_likelihood")]  # fmt: skip
    (tmp_path / "metrics.jsonl").write_bytes(before[: kept + 9])  # cut off by a kill
    log = metrics.Log(tmp_path)
    log.go_on_from(kept)
    log.report(60, r2)
    log.close()
    assert steps(tmp_path) == [(60, "encoder/loss"), (60, "encoder/r2_walk")]
