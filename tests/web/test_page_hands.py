"""The page under real hands: mouse, keys, sliders, a phone; links and Python of what was asked."""

import numpy as np
import pytest
from helpers.webdriver import ask

import zsrl_jax
from zsrl_jax.rewards import quantity_columns

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore:the features hardly")]
Z = "return Array.from(zsrl.prompt.z)"
PRESSED = """return [...document.querySelectorAll("#panel [aria-pressed=true]")]
    .map((e) => e.dataset.task ?? e.textContent)"""


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_any_width_has_no_scroll_bar(show, width):
    window = show("quadruped", width=width, height=800)
    script = """const root = document.documentElement, panel = document.getElementById("panel");
        return [root.scrollWidth - innerWidth, root.scrollHeight - innerHeight,
                panel.scrollWidth - panel.clientWidth, innerWidth]"""
    sideways, down, inside, seen = window.run(script)
    assert seen == width and sideways <= 0 and down <= 0 and inside <= 0


def test_keyboard_names_and_colours(show):
    window = show("cheetah")
    unnamed = """return [...document.querySelectorAll("button, input, textarea, canvas")]
        .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
        .map((e) => e.outerHTML)"""
    assert window.run(unnamed) == []
    press = """document.querySelector(where).dispatchEvent(
        new KeyboardEvent("keydown", {key, bubbles: true}))"""
    ask(window, press, where="#tab-reward", key="ArrowRight")
    assert window.run("return document.getElementById('pane-goal').hidden") is False
    assert window.run("return document.activeElement.id") == "tab-goal"
    ask(window, press, where="#view", key=" ")
    assert window.run("return zsrl.isPaused") is False
    ask(window, press, where="#view", key=" ")
    ask(window, press, where="#view", key="s")
    assert window.run("return zsrl.speed") < 1
    ask(window, press, where="#view", key="ArrowRight")
    assert window.run("return zsrl.robot.pushes.length") == 1
    paper = "return getComputedStyle(document.getElementById('panel')).backgroundColor"
    window.prefer("dark")
    dark = window.run(paper)
    window.prefer("light")
    assert dark != window.run(paper)


def test_a_push_moves_it_and_a_recording_prompts(show):
    window = show("cheetah")
    live = """zsrl.starts = 0; zsrl.restart(); if (push) zsrl.pushAside(1);
        for (let i = 0; i < 15; i++) zsrl.step(); return zsrl.robot.data.qvel[0]"""
    assert ask(window, live, push=True) > ask(window, live, push=False) + 0.3
    script = """zsrl.record(); for (let i = 0; i < 250; i++) zsrl.step();
        const {kind, z} = zsrl.prompt;
        return [kind, zsrl.recording, Array.from(z).every(Number.isFinite)]"""
    assert window.run(script) == ["demonstration", None, True]


def drag(window, *places):
    """Press the mouse at the first place, move over the others, and let go."""
    steps = [{"type": "pointerMove", "duration": 0, "x": x, "y": y} for x, y in places]
    steps.insert(1, {"type": "pointerDown", "button": 0})
    steps.append({"type": "pointerUp", "button": 0})
    mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}
    window.call("actions", actions=[mouse | {"actions": steps}])


def test_a_click_pushes_the_robot_and_a_drag_turns_the_view(show):
    window = show("cheetah", width=1000, height=600)
    find = """const is = (x, y) => zsrl.scene.pick(x, y);
        for (let y = 100; y < 560; y += 3) for (let x = 20; x < 580; x += 3)
          if (is(x, y) && is(x - 6, y) && is(x + 6, y) && is(x, y - 6) && is(x, y + 6))
            return [x, y]; return null"""
    pushes, side = "return zsrl.robot.pushes.length", "return zsrl.scene.camera.position.x"
    drag(window, (30, 30))  # the sky
    assert window.run(pushes) == 0
    x, y = window.wait(find)
    drag(window, (x, y))
    assert window.run(pushes) == 1
    before = window.run(side)
    drag(window, (x, y), (x + 60, y + 5), (x + 120, y + 10))
    window.wait(f"return Math.abs(zsrl.scene.camera.position.x - {before}) > 0.1")
    assert window.run(pushes) == 1


def test_every_quantity_that_varies_has_a_slider(show):
    window, physics = show("quadruped"), zsrl_jax.load("quadruped").params.prompt_physics
    columns = quantity_columns("quadruped", physics)
    named = "return [...document.querySelectorAll('#mix input')].map((e) => e.ariaLabel)"
    assert sorted(window.run(named)) == sorted(n for n, x in columns.items() if np.ptp(x) > 1e-6)
    move = """const row = document.querySelector(`#mix input[aria-label=${name}]`);
        row.value = value; row.dispatchEvent(new Event("input")); return zsrl.prompt.text"""
    assert ask(window, move, name="angular_momentum_z", value=1) == "angular_momentum_z"
    text = "angular_momentum_z - 0.5*joint_speed_3"
    assert ask(window, move, name="joint_speed_3", value=-0.5) == text
    assert window.run("return document.getElementById('text').value") == text
    planar = show("cheetah").run(named)
    assert "angular_momentum_y" in planar and "angular_momentum_x" not in planar


def test_a_phone_shows_the_answer_before_the_sliders(show):
    verdict = """const box = document.getElementById("verdict").getBoundingClientRect();
        return [document.getElementById("mix").open, box.bottom <= innerHeight]"""
    assert show("cheetah", width=390, height=844).run(verdict) == [False, True]
    assert show("cheetah", width=1280, height=800).run(verdict) == [True, True]


def test_only_what_it_does_is_marked(show):
    window = show("cheetah")
    window.run("zsrl.setReward('speed')")
    assert window.run(PRESSED) == ["go forwards"]
    window.run("document.querySelector('#poses button:nth-child(3)').click()")
    assert window.run(PRESSED) == ["3"]
    window.run("document.querySelector('#clips button').click()")
    assert window.run(PRESSED) == ["most speed"]
    window.run("document.querySelector('#tasks button').click()")
    assert window.run(PRESSED) == ["walk"]


def test_a_tab_that_was_hidden_is_not_drawn_coarser(show):
    window = show("cheetah")
    script = """const {scene} = zsrl; Object.assign(scene, {quality: 1, mean: 16, drawn: 0});
        for (const now of times) scene.adapt(now); return scene.quality"""
    assert ask(window, script, times=[16, 32, 60_000, 60_016, 900_000, 900_016]) == 1
    assert ask(window, script, times=[200 * i for i in range(20)]) < 1


def test_a_link_to_a_recording_is_the_same_behaviour(show):
    window = show("cheetah")
    window.run("zsrl.record(); while (zsrl.recording) zsrl.step()")
    z, address = window.run(Z), window.run("return location.hash")
    assert address.startswith("#recording=") and len(address) < 400
    window = show("cheetah", address)
    assert window.run("return [zsrl.prompt.kind, zsrl.prompt.clip]") == ["demonstration", None]
    assert window.run(Z) == z
    for wrong in (
        "AAAA",
        "A" * (len(address) - 11),
        "%3Cb%3E" + address[18:],
        address[11:-1] + ".",
    ):
        window = show("cheetah", f"#recording={wrong}")
        assert window.run("return zsrl.prompt.text") == "speed"


PROMPTS = (
    "zsrl.setReward('speed*(height>0.5)')",
    "zsrl.setGoal(zsrl.rows('poses')[2])",
    "zsrl.setClip(1)",
    "zsrl.record(); while (zsrl.recording) zsrl.step()",
)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_python_that_it_shows_does_the_same(show, prompt):
    window = show("cheetah")
    window.run(prompt)
    obs = window.run("return Array.from(zsrl.robot.observe())")
    wanted = ask(window, "return Array.from(zsrl.agent.act(obs, zsrl.prompt.z))", obs=obs)
    seen = {"observation": obs}
    exec(window.run("return document.getElementById('code').textContent"), seen)
    np.testing.assert_allclose(seen["action"][0], wanted, atol=1e-3)
