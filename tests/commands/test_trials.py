"""The record of trials: a line for a run that finished, and one for a run that did not."""

import json
from pathlib import Path

import pytest
from helpers.person import ROOT

from zsrl_jax.commands import trials
from zsrl_jax.errors import DataError
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.training.pipeline import Finished

RUN = ROOT / "tests" / "fixtures" / "run_0_1"
COMMAND = [
    "python", "-m", "experiments.run", "--config=configs/x.py", "--config.policy.updates=9",
    "--config.data.path=/home/me/walker_100",
]  # fmt: skip


def finished() -> Finished:
    """Return the run of the fixture as if it had just finished."""
    file = RUN / "results.json"
    found = json.loads(file.read_text())
    tasks = len(found["tasks"])
    found |= {"data_mean": [1.4] * tasks, "data_best": [2.6] * tasks}
    return Finished(None, None, found, file)


def test_a_trial_is_a_line_with_its_settings_and_scores(tmp_path):
    file, config = tmp_path / "trials.jsonl", get_cell("cheetah", "fb", "btd", "smoke")
    for name in ("first", "second"):
        with trials.recorded(name, file, config, COMMAND) as told:
            told(finished())
    first, second = map(json.loads, file.read_text().splitlines())
    assert (first["name"], second["name"]) == ("first", "second")
    assert first["set"] == ["policy.updates=9", "data.path=walker_100"]
    assert first["config"] == "--config=configs/x.py"
    found = finished().results
    mean = [sum(map(sum, zip(*seeds, strict=True))) / len(seeds) / len(seeds[0])
            for seeds in zip(*found["returns"], strict=True)]  # fmt: skip
    assert first["scores"] == [round(value) for value in mean]
    assert first["data_mean"] == [1.0] * len(mean) and first["data_best"] == [3.0] * len(mean)
    assert "error" not in first


def test_a_trial_without_scores_leaves_its_data(tmp_path):
    done = finished()
    plain = {"tasks": [], "returns": [], "random": [], "data": done.results["data"]}
    assert trials.outcome(done._replace(results=plain)).keys() == {"data", "data_episodes", "tasks"}
    bare = done.results | {"data_mean": None, "data_best": None}
    assert trials.outcome(done._replace(results=bare))["data_mean"] is None


def test_a_trial_that_failed_leaves_its_error(tmp_path):
    file, config = tmp_path / "trials.jsonl", get_cell("walker", "fb", "btd", "smoke")
    with (
        pytest.raises(DataError, match="no data"),
        trials.recorded("broken", file, config, COMMAND),
    ):
        raise DataError("no data\nat all")
    (line,) = map(json.loads, Path(file).read_text().splitlines())
    assert line["error"] == "DataError: no data at all" and line["domain"] == "walker"
