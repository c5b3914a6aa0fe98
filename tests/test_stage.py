"""A stage knows what decided it, and forgets what an earlier run left behind."""

import json

import jax
import pytest

from configs.cell import get_cell
from zsrl_jax import metrics, stage


@pytest.fixture
def run(tmp_path):
    log = metrics.Log(tmp_path)
    config = get_cell("cheetah", "fb", "btd", "smoke")
    yield stage.Run(config, tmp_path, log, jax.random.key(0), {}, "abc", True)
    log.close()


@pytest.mark.parametrize(
    ("path", "value", "changed"),
    [
        ("data.clip", 3.0, {"encoder", "tasks", "policy"}),
        ("data.normalize", "none", {"encoder", "tasks", "policy"}),
        ("encoder.batch", 65, {"encoder", "tasks", "policy"}),
        ("tasks.min_length", 2, {"tasks", "policy"}),
        ("policy.behaviour", 0.5, {"policy"}),
        ("evaluate.episodes", 3, set()),
    ],
)
def test_identity_covers_what_decides_a_stage(run, path, value, changed):
    before = {name: run.identity(name) for name in stage.STAGES[1:]}
    section, field = path.split(".")
    run.config[section][field] = value
    assert {name for name in before if run.identity(name) != before[name]} == changed


def test_identity_covers_data_and_seeds(run):
    before = run.identity("encoder")
    assert run._replace(fingerprint="abd").identity("encoder") != before
    run.config.seed = 1
    assert run.identity("encoder") != before


def test_starting_anew_forgets_what_came_after(run, tmp_path):
    for step in (20, 40):
        run.log.write(step, {"encoder/loss": [1.0], "encoder/norm": [2.0]})
        run.log.write(step, {"policy/q": [1.0]})
        run.log.write(step, {"evaluate/mean": [1.0]})
    (tmp_path / "agent").mkdir()
    (tmp_path / "results.json").write_text("{}")
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 60, "poli')  # cut off by a kill
    run.start("policy", 20)
    lines = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    kept = [(line["step"], *(k for k in line if "/" in k)) for line in lines]
    assert kept == [
        (20, "encoder/loss", "encoder/norm"), (20, "policy/q"), (20, "evaluate/mean"),
        (40, "encoder/loss", "encoder/norm"),
    ]  # fmt: skip
    assert not (tmp_path / "agent").exists() and not (tmp_path / "results.json").exists()
    run.log.write(40, {"policy/q": [3.0]})
    assert json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])["step"] == 40


def test_what_a_finished_stage_tells_again_is_written_once(run, tmp_path):
    r2 = {"encoder/r2_walk": [0.5, float("nan")]}
    run.log.report(60, r2)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 60, "enc')  # cut off by a kill
    run.log.report(60, r2)
    run.log.report(60, {"encoder/r2_walk": [0.5, 0.25]})  # another value is news
    run.log.report(80, r2)  # and so is another step
    lines = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    told = [(line["step"], line["encoder/r2_walk"]) for line in lines]
    assert told == [(60, [0.5, "nan"]), (60, [0.5, 0.25]), (80, [0.5, "nan"])]
