"""Curves of runs: means over seeds, damaged last lines, clear refusals."""

import json

import numpy as np
import pytest

from zsrl_jax.commands import diagnose
from zsrl_jax.errors import ConfigError, DataError


def write_run(folder, lines):
    folder.mkdir()
    text = "\n".join(json.dumps(line) for line in lines)
    (folder / "metrics.jsonl").write_text(text + '\n{"step": 30, "enc')
    return folder


def test_seeds_are_averaged_and_a_cut_line_is_left_out(tmp_path):
    lines = [{"step": 10, "encoder/loss": [1.0, 3.0]}, {"step": 20, "encoder/loss": [0.0, 1.0]}]
    curves = diagnose.read_curves(write_run(tmp_path / "a", lines))
    np.testing.assert_array_equal(curves["encoder/loss"], [[10, 20], [2.0, 0.5]])


def test_the_table_has_the_last_values_and_a_dash_for_what_a_run_lacks(tmp_path):
    first = diagnose.read_curves(
        write_run(tmp_path / "a", [{"step": 1, "encoder/loss": [1]}, {"step": 2, "policy/q": [7]}])
    )
    runs = {"a": first, "b": {"policy/q": (np.array([5.0]), np.array([9.0]))}}
    text = diagnose.table(runs, diagnose.choose(runs, []))
    assert [row.split() for row in text.splitlines()] == [
        ["a", "b"],
        ["encoder/loss", "1", "-"],
        ["policy/q", "7", "9"],
    ]


def test_values_that_json_lacks_are_read(tmp_path):
    run = write_run(tmp_path / "a", [{"step": 1, "policy/q": ["nan"]}])
    assert np.isnan(diagnose.read_curves(run)["policy/q"][1][0])


def test_the_picture_is_written(tmp_path):
    lines = [{"step": s, "encoder/loss": [1 / s], "policy/q": [s]} for s in (1, 2, 3)]
    runs = {"a": diagnose.read_curves(write_run(tmp_path / "a", lines))}
    diagnose.draw(runs, ["encoder/loss", "policy/q"], tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_refusals_name_the_thing(tmp_path):
    with pytest.raises(DataError, match=r"'.*nothing' has no metrics.jsonl"):
        diagnose.read_curves(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="no run logged 'encoder/los'"):
        diagnose.choose({"a": {"encoder/loss": (np.zeros(1), np.zeros(1))}}, ["encoder/los"])
