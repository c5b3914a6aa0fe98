"""The page as a file: one whole HTML, a strict policy, refusals before anything is written."""

import base64
import gzip
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from helpers.person import ROOT, command

import zsrl_jax
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import DataError, DiskError, TaskError
from zsrl_jax.runs import shipped
from zsrl_jax.web import bundle, pages

pytestmark = pytest.mark.filterwarnings("ignore:the features hardly")
RUN = ROOT / "tests/fixtures/run_0_1"
needs_parts = pytest.mark.browser  # fetches MuJoCo and three.js, as the tests in a browser do


def test_arrays_take_the_smallest_exact_type():
    arrays = {"half": np.array([0.5, -2.0]), "single": np.float32([0.1]), "double": np.array([0.1]),
              "large": np.array([1e6]), "none": np.zeros((0, 3))}  # fmt: skip
    table, block = bundle.pack(arrays)
    kinds = [entry[0] for entry in table.values()]
    assert kinds == ["float16", "float32", "float64", "float32", "float16"]
    for name, (kind, shape, at) in table.items():
        seen = np.frombuffer(block, kind, int(np.prod(shape)), at).reshape(shape)
        np.testing.assert_array_equal(seen, arrays[name])
        assert at % 8 == 0


def test_every_client_file_is_in_the_page_and_in_the_wheel():
    listed = {f.name for f in pages.CLIENT.iterdir() if f.suffix == ".js"} - {"loader.js"}
    assert listed == set(pages.MODULES)
    packed = (ROOT / "pyproject.toml").read_text()
    assert "web/client/*" in packed and "agents/*.npz" in packed and "agents/*.json" in packed


def test_modules_come_after_those_they_need():
    for i, name in enumerate(pages.MODULES):
        text = (pages.CLIENT / name).read_text()
        needed = re.findall(r'from "\./(\w+\.js)"', text)
        assert set(needed) <= set(pages.MODULES[:i]), name


def test_no_client_file_runs_text_or_reaches_out():
    for file in pages.CLIENT.glob("*.js"):
        text = file.read_text()
        for word in ("eval(", "new Function", "innerHTML", "outerHTML", "document.write", "fetch(",
                     "XMLHttpRequest", "WebSocket", "importScripts", "insertAdjacent"):  # fmt: skip
            assert word not in text, (file.name, word)


@needs_parts
def test_the_page_is_one_file_with_a_strict_policy(tmp_path):
    file = zsrl_jax.page(zsrl_jax.load(RUN), tmp_path / "out")
    text = file.read_text()
    assert list((tmp_path / "out").iterdir()) == [file] and text.count("<html") == 1
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy and "http" not in policy
    assert not re.findall(r'(?:src|href)="(?!data:)', text) and "{{" not in text.split("<script")[0]
    assert str(ROOT) not in text


def facts_in(text):
    """Return the facts that a page holds."""
    packed = re.search(r'id="texts">([^<]*)<', text)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))["facts"]


@needs_parts
def test_an_agent_that_ships_has_the_same_page_by_name_and_as_an_object(tmp_path):
    named = zsrl_jax.page("walker", tmp_path / "named").read_text()
    assert zsrl_jax.page(zsrl_jax.load("walker"), tmp_path / "object").read_text() == named
    facts = facts_in(named)
    assert facts["call"] == "walker" and len(facts["clips"]) == 6
    assert facts["scores"]["tasks"] == ["stand", "walk", "run", "flip"]


@needs_parts
def test_a_run_of_the_name_of_an_agent_that_ships_has_its_own_scores(tmp_path, monkeypatch):
    (tmp_path / "cheetah").symlink_to(RUN)
    monkeypatch.chdir(tmp_path)
    facts = facts_in(zsrl_jax.page("cheetah", "out").read_text())
    kept = json.loads((RUN / "results.json").read_text())
    assert facts["dim"] == 8
    np.testing.assert_allclose(facts["scores"]["agent"], np.mean(kept["returns"], axis=(0, 2)))
    assert "1 seed x " in facts["scores"]["told"]


@needs_parts
def test_open_serves_the_page_to_this_machine_and_opens_the_browser(tmp_path):
    opened = tmp_path / "opened"
    seen = tmp_path / "browser"
    seen.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    seen.chmod(0o755)
    call = [sys.executable, "-m", "experiments.page", RUN, f"--out={tmp_path / 'out'}", "--open"]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "BROWSER": f"{seen} %s"}
    with subprocess.Popen(call, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as server:
        try:
            file, address = (server.stdout.readline().split()[0] for _ in range(2))
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/index\.html", address)
            with urllib.request.urlopen(address, timeout=30) as answer:
                assert answer.read() == Path(file).read_bytes()
            while not opened.exists():
                assert server.poll() is None
                time.sleep(0.05)
            assert opened.read_text().strip() == address
        finally:
            server.terminate()


@pytest.mark.parametrize("name", shipped.names())
def test_agents_that_ship(name):
    card, agent = shipped.read_card(name), zsrl_jax.load(name)
    assert (shipped.FOLDER / f"{name}.npz").stat().st_size <= shipped.LIMIT
    assert agent.num_seeds == 1 and agent.domain == name == card["domain"]
    assert np.isfinite(agent.infer(reward=agent.task_names[0])).all()
    wanted = {
        "data",
        "config",
        "versions",
        "command",
        "seeds",
        "returns",
        "random",
        "scale",
        "mean",
    }
    near = card["cosine_to_whole"]
    assert wanted <= set(card) and min(near[task] for task in agent.task_names) > 0.98
    assert np.shape(card["returns"])[:2] == (len(card["seeds"]), len(card["tasks"]))
    assert card["command"].startswith("python -m experiments.run --config=configs/")
    told = (shipped.FOLDER / f"{name}.json").read_text()
    assert '"/' not in told and "=/" not in told  # no path of the machine that made it


def test_the_three_domains_ship():
    assert shipped.names() == ("cheetah", "quadruped", "walker")


def test_a_packed_agent_answers_as_it_will_after_reading(tmp_path, monkeypatch):
    agent = zsrl_jax.load(RUN)
    small = shipped.reduce(agent, 0, 500, 100)
    assert small.params.tasks.shape == (1, 100, 8) and len(small.params.prompt_obs) == 500
    facts = {"config": json.loads(agent.config.to_json_best_effort())}
    shipped.write(tmp_path, "tiny", small, [], facts)
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    again = zsrl_jax.load("tiny")
    for text in ("run", "height", "-speed"):
        np.testing.assert_array_equal(again.prompt(text).z, small.prompt(text).z)
    obs = np.asarray(agent.params.prompt_obs)[:4]
    z = small.infer(reward="run")
    np.testing.assert_array_equal(again.act(obs[0], z), small.act(obs[0], z))
    monkeypatch.setattr(shipped, "LIMIT", 1000)
    with pytest.raises(shipped.TooLargeError, match="expected at most 1,000; keep fewer states"):
        shipped.write(tmp_path, "tiny", small, [], facts)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["tiny.json", "tiny.npz"]


def test_a_run_of_the_same_name_comes_first(tmp_path, monkeypatch):
    (tmp_path / "cheetah").symlink_to(RUN)
    monkeypatch.chdir(tmp_path)
    assert zsrl_jax.load("cheetah").z_dim == 8


def test_refusals(tmp_path, monkeypatch):
    agent = zsrl_jax.load(RUN)
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="is a file: expected a folder"):
        zsrl_jax.page(agent, tmp_path / "file")
    with pytest.raises(DataError, match="member 3: the agent has 1 training seed"):
        zsrl_jax.page(agent, tmp_path / "out", member=3)
    with pytest.raises(DataError, match="does not exist: .* agent that ships \\(cheetah, quad"):
        zsrl_jax.page("cheeta", tmp_path / "out")
    monkeypatch.setitem(DOMAINS, "cheetah", DOMAINS["cheetah"]._replace(xml=None))
    with pytest.raises(DataError, match="names no XML"):
        zsrl_jax.page(agent, tmp_path / "out")
    agent.domain = "hopper"
    with pytest.raises(TaskError, match="'hopper' is not known"):
        zsrl_jax.page(agent, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_commands_refuse_in_one_line(tmp_path):
    for words, module, told in (
        ([], "experiments.page", "expected one run or agent: python -m experiments.page"),
        (["nowhere"], "experiments.page", "'nowhere' does not exist"),
        ([], "experiments.agents", "expected finished runs"),
        ([RUN, "--member=4"], "experiments.agents", "member 4: the run has 1 seed"),
    ):
        done = command(*words, module=module, XDG_CACHE_HOME=str(tmp_path))
        assert done.returncode == 2 and told in done.stderr and done.stderr.count("\n") == 1
