"""Encoders and domains of one's own: registered by name, and named where they are missing."""

import importlib.metadata
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.person import ROOT

import zsrl_jax
from zsrl_jax import registration
from zsrl_jax.encoders import fb
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import ConfigError, DataError, TaskError
from zsrl_jax.runs import checkpoint

RUN = ROOT / "tests/fixtures/run_0_1"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Whatever a test registers is gone after it."""
    monkeypatch.setattr(registration, "ENCODERS", zsrl_jax.ENCODERS)
    before = dict(zsrl_jax.ENCODERS), dict(DOMAINS)
    yield
    for table, known in zip((zsrl_jax.ENCODERS, DOMAINS), before, strict=True):
        table.clear()
        table.update(known)


def of_ones_own(tmp_path, **changes):
    """A run whose agent says that it has another encoder or domain."""
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    manifest = checkpoint.read_manifest(folder / "agent")
    meta = manifest["meta"]
    if "encoder" in changes:
        meta["config"]["encoder"]["name"] = changes["encoder"]
    if "domain" in changes:
        meta["domain"] = meta["config"]["domain"] = changes["domain"]
    checkpoint.write_manifest(folder / "agent", meta, manifest["files"])
    return folder


def test_an_encoder_that_is_not_registered_is_named(tmp_path):
    folder = of_ones_own(tmp_path, encoder="mine")
    told = r"needs the encoder 'mine', not known.*zsrl_jax.register\(encoder=..., name='mine'\)"
    with pytest.raises(DataError, match=told):
        zsrl_jax.load(folder)
    zsrl_jax.register(encoder=fb, name="mine")
    assert zsrl_jax.load(folder).act(np.zeros(17), np.ones((1, 8))).shape == (1, 6)


@pytest.mark.filterwarnings("ignore:the features hardly")
def test_a_domain_that_is_not_registered_is_named_and_the_agent_acts(tmp_path):
    folder = of_ones_own(tmp_path, domain="hopper")
    with pytest.warns(UserWarning, match=r"needs the domain 'hopper'.*register\(domain=...\)"):
        agent = zsrl_jax.load(folder)
    assert agent.act(np.zeros(17), np.ones((1, 8))).shape == (1, 6)
    told = r"domain 'hopper'.*zsrl_jax.register\(domain=...\)"
    with pytest.raises(TaskError, match=told):
        zsrl_jax.evaluate(agent)
    with pytest.raises(TaskError, match=told):
        agent.infer(reward="run")
    zsrl_jax.register(domain=DOMAINS["cheetah"]._replace(name="hopper"))
    assert zsrl_jax.load(folder).infer(reward="run").shape == (1, 8)


def test_a_config_may_name_what_is_registered():
    zsrl_jax.register(encoder=fb, name="mine")
    assert zsrl_jax.config("cheetah", "mine", "btd", "smoke").encoder.name == "mine"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, r"expected encoder=... or domain=..."),
        ({"encoder": fb, "domain": DOMAINS["cheetah"]}, "none or both"),
        ({"encoder": SimpleNamespace(make=print), "name": "x"}, "has no function default_config"),
        ({"encoder": SimpleNamespace(make=print, default_config=print)}, "has no name"),
        ({"domain": "hopper"}, "domain is a str: expected a Domain"),
        ({"encoder": fb}, "the encoder 'fb' is zsrl_jax's own"),
        ({"domain": DOMAINS["cheetah"]}, "the domain 'cheetah' is zsrl_jax's own"),
    ],
)
def test_what_cannot_be_registered_is_told(given, told):
    with pytest.raises(ConfigError, match=told):
        zsrl_jax.register(**given)


def test_entry_points_register_for_every_process(tmp_path, monkeypatch):
    def load():
        zsrl_jax.register(encoder=fb, name="mine")

    entry = SimpleNamespace(name="mine", value="mine:x", load=load)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    assert zsrl_jax.load(of_ones_own(tmp_path, encoder="mine")).z_dim == 8
    del zsrl_jax.ENCODERS["mine"]
    assert zsrl_jax.config("cheetah", "mine", "btd", "smoke").encoder.name == "mine"


def test_an_entry_point_that_fails_is_named(monkeypatch):
    def load():
        raise ImportError("no such thing")

    entry = SimpleNamespace(name="mine", value="mine:x", load=load)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    with pytest.raises(ConfigError, match=r"entry point 'mine' \(mine:x\) cannot be imported"):
        zsrl_jax.config("cheetah", "mine", "btd", "smoke")


def test_a_file_is_not_a_run_folder():
    with pytest.raises(DataError, match="is a file: expected the run's folder"):
        zsrl_jax.load(RUN / "results.json")
    with pytest.raises(DataError, match="does not exist"):
        zsrl_jax.load(RUN / "nothing")
