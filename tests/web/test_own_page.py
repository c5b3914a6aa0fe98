"""Pages of domains without an agent that ships: the hopper of the docs, and the maze."""

import re

import numpy as np
import pytest
from helpers.person import ROOT
from helpers.untrained import make_agent
from helpers.webdriver import ask

import zsrl_jax
from zsrl_jax.envs import DOMAINS

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore:the features hardly")]


@pytest.fixture
def hopper(monkeypatch):
    """The domain of a user: that of docs/environments.md."""
    text, names = (ROOT / "docs/environments.md").read_text(), {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(next(block for block in blocks if "HOPPER = Domain(" in block), names)
    monkeypatch.setitem(DOMAINS, "hopper", names["HOPPER"])


def open_page(window, agent, folder):
    """Open an agent's page and see that it lives, without a word on the console."""
    window.open("about:blank")
    window.log()
    window.resize(900, 600)
    window.open(zsrl_jax.page(agent, folder).as_uri())
    window.wait("return !!window.zsrl && zsrl.time > 0.2", 120)
    window.run("zsrl.pause()")
    assert [line for line in window.log() if line["level"] in ("SEVERE", "WARNING")] == []


def test_a_domain_of_one_s_own(window, tmp_path, hopper):
    agent = make_agent("hopper")
    open_page(window, agent, tmp_path)
    script = "return [zsrl.setReward(text), Array.from(zsrl.prompt.z)]"
    for text in ("speed*(height>0.5)", "hop", "hop_backward"):  # its tasks have no text
        taken, z = ask(window, script, text=text)
        assert taken
        np.testing.assert_allclose(z, agent.infer(reward=text)[0], atol=2e-5 * agent.radius)


def test_the_maze(window, tmp_path):
    agent = make_agent("point_mass_maze")
    open_page(window, agent, tmp_path)
    named = "return [...document.querySelectorAll('#sliders input')].map((e) => e.ariaLabel)"
    assert window.run(named) == ["x", "y", "speed_x", "speed_y"]
    assert window.run("return document.getElementById('more').hidden") is True
    taken, z = ask(window, "return [zsrl.setReward('x'), Array.from(zsrl.prompt.z)]")
    assert taken
    np.testing.assert_allclose(z, agent.infer(reward="x")[0], atol=2e-5 * agent.radius)
