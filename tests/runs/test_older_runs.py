"""Runs of earlier versions stay readable: a folder of version 0.1 is kept as a fixture."""

import json
import shutil

import numpy as np
import pytest
from helpers.person import ROOT
from ml_collections import ConfigDict

import zsrl_jax
from zsrl_jax.errors import ConfigError
from zsrl_jax.runs import checkpoint
from zsrl_jax.runs.identity import Asked
from zsrl_jax.settings import fields

RUN = ROOT / "tests/fixtures/run_0_1"


@pytest.fixture(scope="module")
def results():
    return json.loads((RUN / "results.json").read_text())


@pytest.mark.filterwarnings("ignore:the features hardly")
def test_a_run_of_version_0_1_loads_and_scores_as_it_did(results):
    agent = zsrl_jax.load(RUN)
    episodes = results["config"]["evaluate"]["episodes"]
    scores = zsrl_jax.evaluate(agent, episodes=episodes, progress=False)
    assert list(scores.tasks) == results["tasks"]
    np.testing.assert_allclose(scores.returns, results["returns"], rtol=2e-2, atol=0.5)
    np.testing.assert_allclose(scores.r2, results["r2"], atol=1e-3)


def drop(config, path):
    section, _, name = path.rpartition(".")
    for part in section.split(".") if section else ():
        config = config[part]
    del config[name]


@pytest.mark.parametrize(
    "path", ["policy.anneal", "policy.successor", "infer.nearest", "precision", "devices",
             "data.collect.standing", "data.feed_updates", "encoder.mix_ratio"],
)  # fmt: skip
def test_a_run_from_before_a_field_existed_has_its_default(tmp_path, results, path):
    """As if the field had come later: gone from the agent's config, it is read as the default."""
    shutil.copytree(RUN, tmp_path / "run")
    meta = checkpoint.read_meta(tmp_path / "run/agent")
    drop(meta["config"], path)
    files = checkpoint.read_manifest(tmp_path / "run/agent")["files"]
    checkpoint.write_manifest(tmp_path / "run/agent", meta, files)
    config = zsrl_jax.load(tmp_path / "run").config
    default = fields.get_config("cheetah", "fb", "btd")
    for name in path.split("."):
        config, default = config[name], default[name]
    assert str(config) == str(default)


def test_a_run_from_before_a_field_existed_goes_on(tmp_path, results):
    """Saves without a fact go on with its default, and are refused with another value."""
    shutil.copytree(RUN, tmp_path / "run")
    config = fields.with_defaults(results["config"])
    asked = Asked(tmp_path / "run", config, results["data"]["fingerprint"])
    asked.check()
    assert config.tasks.moves == 0  # its mixture was fitted before there were moves
    place = next((tmp_path / "run/policy").iterdir())
    manifest = checkpoint.read_manifest(place)
    del manifest["meta"]["facts"]["policy.behaviour"]
    checkpoint.write_manifest(place, manifest["meta"], manifest["files"])
    asked.check()
    with config.unlocked():
        config.policy.behaviour = 0.5
    with pytest.raises(ConfigError, match="policy.behaviour was 0.0, now 0.5"):
        asked.check()


def test_an_oracle_gets_no_sections_that_it_has_not():
    config = zsrl_jax.oracle_config("cheetah", ["run"], "smoke")
    stored = json.loads(config.to_json_best_effort())
    del stored["policy"]["anneal"], stored["precision"]
    read = fields.with_defaults(stored)
    assert isinstance(read, ConfigDict) and "encoder" not in read and "tasks" not in read
    assert read.policy.anneal is False and read.precision == "float32"
