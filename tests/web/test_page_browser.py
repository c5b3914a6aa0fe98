"""The page in a real browser: the same answers as Python, hostile text, the address."""

import json
import warnings
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
from helpers.person import ROOT
from helpers.untrained import make_agent
from helpers.webdriver import ask

import zsrl_jax
from zsrl_jax.envs import DOMAINS, Simulator
from zsrl_jax.rewards import quantity_columns

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore:the features hardly")]
ROBOTS = ("cheetah", "walker", "quadruped")
CASES = json.loads((ROOT / "tests/rewards/cases.json").read_text())
REWARDS = (
    "speed", "-speed", "height", "-uprightness", "speed*(height>0.5)", "-abs(speed-1)",
    "clip(speed/2, 0, 1) and uprightness > 0", "tanh(angular_momentum_y)", "exp(-height**2)",
    "where(height>0.4, linear(speed, 2, 2, 0.5), gaussian(height, 1, 0.5))",
)  # fmt: skip
NETWORK = "return performance.getEntriesByType('resource').map(r => r.name)"


def obs_of(name, physics):
    """Return what a state's observation is when an episode starts from it."""
    domain = DOMAINS[name]
    model = domain.model()
    data, flags = mujoco.MjData(model), model.opt.disableflags
    data.qpos, data.qvel, data.act = np.split(physics, [model.nq, model.nq + model.nv])
    model.opt.disableflags = flags | int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    mujoco.mj_forward(model, data)
    model.opt.disableflags = flags
    names = ("qpos", "qvel", "act", "xmat", "xpos", "sensordata")
    batch = SimpleNamespace(**{name: np.array(getattr(data, name))[None] for name in names})
    return domain.observe(batch)[0]


def check(window, agent, z, told, obs):
    """Compare z, and the actions in some states, with Python's."""
    np.testing.assert_allclose(told, z[0], atol=2e-5 * agent.radius)
    script = "return obs.map(o => Array.from(zsrl.agent.act(o, Float32Array.from(z))))"
    seen = ask(window, script, obs=obs.tolist(), z=z[0].tolist())
    wanted = np.stack([agent.act(o, z)[0] for o in obs])
    np.testing.assert_allclose(seen, wanted, atol=2e-5)


@pytest.mark.parametrize("name", ROBOTS)
def test_ready_from_disk_without_errors_or_requests(show, name):
    window = show(name)
    assert window.run("return location.protocol") == "file:"
    before = window.run("return zsrl.time")
    window.run("zsrl.pause()")
    window.wait(f"return zsrl.time > {before} + 0.2")
    window.run("zsrl.pause()")
    assert [n for n in window.run(NETWORK) if not n.startswith(("blob:", "data:"))] == []
    assert [line for line in window.log() if line["level"] in ("SEVERE", "WARNING")] == []


@pytest.mark.parametrize("name", ROBOTS)
def test_rewards_are_answered_as_in_python(show, name):
    window, agent = show(name), zsrl_jax.load(name)
    obs = np.asarray(agent.params.prompt_obs)[:: len(agent.params.prompt_obs) // 10][:10]
    script = """if (!zsrl.setReward(text)) return document.getElementById("problem").textContent;
        const {z, r2, cosine, ridge} = zsrl.prompt; return [Array.from(z), r2, cosine, ridge]"""
    for text in (*REWARDS, *agent.task_names):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = agent.prompt(text)
        z, r2, cosine, ridge = ask(window, script, text=text)
        check(window, agent, wanted.z, z, obs)
        np.testing.assert_allclose(ridge, wanted.ridge[0], rtol=1e-9)
        np.testing.assert_allclose([r2, cosine], [wanted.r2[0], wanted.cosine[0]], atol=1e-5)


@pytest.mark.parametrize("name", ROBOTS)
def test_goals_and_demonstrations_are_answered_as_in_python(show, name):
    window, agent = show(name), zsrl_jax.load(name)
    physics = np.asarray(agent.params.prompt_physics)
    states = np.asarray(agent.params.prompt_obs, np.float64)
    chosen = np.arange(0, len(physics), len(physics) // 10)[:10]
    for row in chosen:
        goal = obs_of(name, physics[row])
        script = "zsrl.setGoal(state); return [zsrl.prompt.obs, Array.from(zsrl.prompt.z)]"
        seen, z = ask(window, script, state=physics[row].tolist())
        np.testing.assert_allclose(seen, goal, rtol=1e-6, atol=1e-6)
        check(window, agent, agent.infer(goal=goal), z, states[chosen])
    for row in chosen:
        shown = states[row : row + 30]
        script = "return Array.from(zsrl.agent.ofDemonstration(shown).z)"
        z = ask(window, script, shown=shown.tolist())
        check(window, agent, agent.infer(demonstration=shown), z, states[chosen])


@pytest.mark.parametrize("name", ROBOTS)
def test_live_quantities_are_python_s(show, name):
    window, agent = show(name), zsrl_jax.load(name)
    physics = np.asarray(agent.params.prompt_physics)[:5]
    columns = quantity_columns(name, physics)
    script = """zsrl.robot.place(state); const get = zsrl.robot.measure();
        return zsrl.names.map((name) => get(name))"""
    for i, state in enumerate(physics):
        seen = ask(window, script, state=state.tolist())
        wanted = [column[i] for column in columns.values()]
        np.testing.assert_allclose(seen, wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ROBOTS)
def test_it_lives_as_in_python(show, name):
    window, agent = show(name), zsrl_jax.load(name)
    domain = DOMAINS[name]
    started = domain if domain.standing is None else domain._replace(start=domain.standing)
    simulator = Simulator(started, 1, 1)
    z, obs = agent.infer(reward=agent.task_names[0]), simulator.reset([0])
    script = """zsrl.setReward(task); zsrl.starts = 0; zsrl.restart(); const seen = [];
        for (let i = 0; i < 20; i++) { zsrl.step(); seen.push(zsrl.robot.physics()); }
        return seen"""
    seen = ask(window, script, task=agent.task_names[0])
    for row in seen:
        obs = simulator.step(agent.act(obs[None], z[:, None])[0])
        np.testing.assert_allclose(row, simulator.physics()[0], rtol=1e-3, atol=1e-3)


def type_reward(window, text):
    """Type into the field as a person does."""
    found = window.call("element", using="css selector", value="#text")
    element = next(iter(found.values()))
    window.call(f"element/{element}/clear")
    window.call(f"element/{element}/value", text=text)


def test_what_is_typed_changes_what_it_does(show):
    window = show("cheetah")
    live = """zsrl.starts = 0; zsrl.restart(); for (let i = 0; i < 60; i++) zsrl.step();
        return Array.from(zsrl.robot.data.qpos)"""
    type_reward(window, "speed")
    forwards = window.run(live)
    assert window.run(live) == forwards
    type_reward(window, "-2*speed + height")
    assert window.run("return zsrl.prompt.text") == "-2*speed + height"
    assert np.abs(np.subtract(window.run(live), forwards)).max() > 0.01
    shown = window.run("return document.getElementById('code').textContent")
    assert 'z = agent.infer(reward="-2*speed + height")' in shown
    assert 'zsrl_jax.load("cheetah")' in shown


def test_hostile_text_is_refused_and_nothing_runs(show):
    window = show("cheetah")
    window.run("zsrl.setReward('speed'); window.alert = () => { window.hacked = true; }")
    before = window.run("return Array.from(zsrl.prompt.z)")
    script = """const box = document.getElementById("text"); box.value = text;
        box.dispatchEvent(new Event("input")); return [box.getAttribute("aria-invalid"),
        document.getElementById("problem").textContent, window.hacked ?? null]"""
    wrong = [c for c in CASES["hostile"] if c["character"] is not None]
    for case in wrong:
        invalid, told, hacked = ask(window, script, text=case["text"])
        assert invalid == "true" and hacked is None, case
        assert case["told"] in told, (case, told)
    assert window.run("return Array.from(zsrl.prompt.z)") == before
    assert window.run("return document.querySelectorAll('#problem *').length") == 0
    assert [line for line in window.log() if line["level"] == "SEVERE"] == []


def test_the_language_is_python_s(show):
    window = show("cheetah")
    script = """const columns = new Map(Object.entries(states)), names = [...columns.keys()];
        const {parse, evaluate} = zsrl.language; return texts.map((text) => {
          try { return [Array.from(evaluate(parse(text, names), columns, 4)), null, null]; }
          catch (error) { return [null, error.message, error.place ?? null]; } })"""
    texts = [case["text"] for case in CASES["values"]]
    for case, (value, told, _) in zip(
        CASES["values"], ask(window, script, states=CASES["states"], texts=texts), strict=True
    ):
        assert told is None, case
        np.testing.assert_allclose(value, case["value"], rtol=1e-14, atol=1e-15)
    texts = [case["text"] for case in CASES["hostile"]]
    for case, (value, told, place) in zip(
        CASES["hostile"], ask(window, script, states=CASES["states"], texts=texts), strict=True
    ):
        assert value is None and case["told"] in told and place == case["character"], case


def test_a_prompt_survives_the_address(show):
    text = "2*height + (speed > 0.5)*uprightness"
    window = show("walker")
    ask(window, "zsrl.setReward(text)", text=text)
    address = window.run("return location.hash")
    z = window.run("return Array.from(zsrl.prompt.z)")
    window = show("walker", address)
    assert window.run("return document.getElementById('text').value") == text
    assert window.run("return Array.from(zsrl.prompt.z)") == z
    state = window.run("return zsrl.rows('poses')[3]")
    ask(window, "zsrl.setGoal(state)", state=state)
    z = window.run("return Array.from(zsrl.prompt.z)")
    window = show("walker", window.run("return location.hash"))
    assert window.run("return zsrl.prompt.kind") == "goal"
    np.testing.assert_allclose(window.run("return Array.from(zsrl.prompt.z)"), z, atol=0.05)
    window = show("walker", "#clip=1")
    assert window.run("return [zsrl.prompt.kind, zsrl.prompt.clip]") == ["demonstration", 1]
    window = show("walker", "#reward=alert(1)%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    assert window.run("return zsrl.prompt.text") == "speed"  # what was wrong is told, not run
    assert "is no part" in window.run("return document.getElementById('problem').textContent")


def test_nothing_can_be_sent_or_slipped_in(show):
    window = show("cheetah")
    script = """return (async () => {
        try { await fetch("http://127.0.0.1:1/x"); return "sent"; }
        catch (error) { return error.name; } })()"""
    assert window.run(script) == "TypeError"
    slip = """const script = document.createElement("script"); script.textContent = "hacked = 1";
        document.body.append(script); return window.hacked ?? null"""
    assert window.run(slip) is None
    refused = [line["message"] for line in window.log() if "Content Security Policy" in
               line["message"]]  # fmt: skip
    assert len(refused) >= 2


SETTINGS = {
    "paper": {"encoder": "lra_p", "infer.intercept": False, "infer.ridge": 0.0},
    "raw states": {"encoder": "lra_sr", "normalize": "none"},
    "nearest": {"encoder": "byol_gamma", "infer.nearest": 10},
    "behaviours": {"encoder": "aenc", "infer.behaviours": 20, "infer.ridge": 0.01},
    "no tasks": {"encoder": "trans", "tasks": False, "policy.center_reward": False},
    "one stage": {"encoder": "fb", "policy.kind": "own", "tasks": False},
    "transitions": {"encoder": "hilp", "infer.behaviours": 20},
    "transitions, no tasks": {"encoder": "hilp", "tasks": False},
    "tuned": {"encoder": "fb", "encoder.backward_norm": True},
    "critic": {"encoder": "fb", "policy.candidates": 16, "policy.head_norm": True},
    "careful critic": {"policy.candidates": 64, "policy.head": "scalar", "policy.pessimism": 0.5},
    "ensemble": {"encoder": "fb", "policy.ensemble": 2, "policy.candidates": 8},
    "ensemble of actors": {"policy.ensemble": 3, "policy.head_norm": True},
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_every_way_to_answer_is_python_s(window, tmp_path, name):
    agent = make_agent("cheetah", **SETTINGS[name])
    file = zsrl_jax.page(agent, tmp_path)
    window.open("about:blank")
    window.open(file.as_uri())
    window.wait("return !!window.zsrl", 120)
    states = np.asarray(agent.params.prompt_obs, np.float64)
    script = """return [zsrl.setReward(text), Array.from(zsrl.prompt.z), zsrl.prompt.r2,
        Array.from(zsrl.agent.ofGoal(obs[0]).z), Array.from(zsrl.agent.ofDemonstration(obs).z)]"""
    for text in ("speed", "run", "height*(speed<0.1)"):
        taken, *told = ask(window, script, text=text, obs=states[:20].tolist())
        wanted = agent.prompt(text)
        assert taken
        check(window, agent, wanted.z, told[0], states[:10])
        np.testing.assert_allclose(told[1], wanted.r2[0], atol=1e-4)
        check(window, agent, agent.infer(goal=states[0]), told[2], states[:10])
        shown = agent.infer(demonstration=states[:20])
        check(window, agent, shown, told[3], states[:10])
