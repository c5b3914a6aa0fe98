"""The batched simulator against dm_control, state for state and bit for bit."""

import subprocess
import sys

import numpy as np
import pytest
from dm_control.rl.control import PhysicsError
from dm_control.suite.wrappers import action_scale

from zsrl_jax.envs import DOMAINS, Simulator, measure, relabel, suite
from zsrl_jax.errors import DataError, TaskError

TASKS = [(name, task) for name, domain in DOMAINS.items() for task in domain.tasks]


def load(domain, task, seed):
    """A dm_control environment whose actions are in [-1, 1]."""
    env = suite.load(domain, task, random=seed)
    return action_scale.Wrapper(env, -1, 1) if domain == "quadruped" else env


def flat(timestep):
    return np.concatenate([np.ravel(x) for x in timestep.observation.values()])


def test_sixteen_tasks():
    assert sorted(DOMAINS) == ["cheetah", "point_mass_maze", "quadruped", "walker"]
    assert len(TASKS) == 16


@pytest.mark.parametrize("name", DOMAINS)
def test_sizes_are_the_models(name):
    domain, env = DOMAINS[name], load(name, next(iter(DOMAINS[name].tasks)), 0)
    assert domain.obs_dim == flat(env.reset()).size
    assert domain.action_dim == env.action_spec().shape[0]
    assert domain.physics_dim == env.physics.get_state().size
    steps = env.control_timestep() / env.physics.timestep()
    assert domain.substeps == round(steps) == {"walker": 10, "quadruped": 4}.get(name, 1)
    assert env._step_limit == pytest.approx(domain.episode_length)


@pytest.mark.parametrize("name", DOMAINS)
def test_reset_gives_dm_controls_state_of_the_seed(name):
    seeds = [0, 1, 2, 17, 12345, 2**31]
    sim = Simulator(name, len(seeds), num_threads=2)
    obs = sim.reset(seeds)
    for seed, mine, state in zip(seeds, obs, sim.physics(), strict=True):
        env = load(name, next(iter(DOMAINS[name].tasks)), np.random.RandomState(seed))
        np.testing.assert_array_equal(mine, flat(env.reset()))
        np.testing.assert_array_equal(state, env.physics.get_state())
    again = sim.reset(seeds)
    np.testing.assert_array_equal(obs, again)
    assert len(np.unique(obs, axis=0)) == len(seeds)


def test_reset_observes_without_actuation():
    """dm_control's reset ends with the motors off: bent legs that are not yet pushed straight."""
    domain = DOMAINS["quadruped"]

    def start(model, data, random):
        data.qpos[2] = 2.0
        data.qpos[7:] = random.uniform(-0.3, 0.3, 16)

    env = load("quadruped", "run", 0)
    random = np.random.RandomState(0)
    with env.physics.reset_context():
        env.physics.data.qpos[2] = 2.0
        env.physics.data.qpos[7:] = random.uniform(-0.3, 0.3, 16)
    wanted = np.concatenate([np.ravel(x) for x in env.task.get_observation(env.physics).values()])
    sim = Simulator(domain._replace(start=start), 1)
    np.testing.assert_array_equal(sim.reset([0])[0], wanted)
    action = np.zeros((1, 12))
    env._env._reset_next_step = False  # the wrapped environment goes on from here
    np.testing.assert_array_equal(sim.step(action)[0], flat(env.step(action[0])))


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("loop", ["open", "closed"])
def test_steps_equal_dm_controls(name, loop):
    """200 random actions and 1000 of a policy; every task of the domain, one batch."""
    domain, draw = DOMAINS[name], np.random.default_rng(3)
    tasks, seeds = list(domain.tasks), range(len(domain.tasks))
    envs = [load(name, task, seed) for task, seed in zip(tasks, seeds, strict=True)]
    theirs = np.stack([flat(env.reset()) for env in envs])
    sim = Simulator(name, len(tasks), num_threads=2)
    mine = sim.reset(seeds)
    weight = draw.normal(size=(domain.action_dim, domain.obs_dim)) / 2
    rewards, states = [], []
    for _ in range(200 if loop == "open" else 1000):
        if loop == "open":
            action = their_action = draw.uniform(-1, 1, (len(tasks), domain.action_dim))
        else:
            action = np.stack([np.tanh(weight @ o) for o in mine])
            their_action = np.stack([np.tanh(weight @ o) for o in theirs])
        mine = sim.step(action)
        reached = [env.step(a) for env, a in zip(envs, their_action, strict=True)]
        theirs = np.stack([flat(x) for x in reached])
        np.testing.assert_array_equal(mine, theirs)
        rewards.append([float(x.reward) for x in reached])
        states.append(sim.physics())
    for i, task in enumerate(tasks):
        own = relabel(name, task, np.stack(states)[:, i])
        np.testing.assert_allclose(own, np.array(rewards)[:, i], rtol=0, atol=1e-12)
        if name != "point_mass_maze":  # whose goals random actions miss: see test_maze
            assert np.ptp(own) > 1e-3  # the comparison would be empty if rewards never moved
    assert not sim.blown().any()


@pytest.mark.parametrize("name", DOMAINS)
def test_results_do_not_depend_on_threads_or_on_the_batch(name):
    width = DOMAINS[name].action_dim
    action = np.random.default_rng(0).uniform(-1, 1, (30, 5, width))

    def run(lanes, threads):
        sim = Simulator(name, len(lanes), num_threads=threads)
        obs = [sim.reset(lanes)]
        return np.stack(obs + [sim.step(a[lanes]) for a in action])

    whole = run([0, 1, 2, 3, 4], 1)
    np.testing.assert_array_equal(whole, run([0, 1, 2, 3, 4], 3))
    np.testing.assert_array_equal(whole[:, [3, 1]], run([3, 1], 2))


def test_float32_actions_are_taken_as_they_are():
    action = np.random.default_rng(0).uniform(-1, 1, (2, 12)).astype(np.float32)
    sims = [Simulator("quadruped", 2), Simulator("quadruped", 2)]
    for sim in sims:
        sim.reset([0, 1])
    np.testing.assert_array_equal(sims[0].step(action), sims[1].step(action.astype(np.float64)))


@pytest.mark.parametrize("value", [np.nan, 1e12])
def test_a_diverged_episode_is_reported_and_only_it(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings to a file here
    domain = DOMAINS["walker"]

    def start(model, data, random):
        domain.start(model, data, random)
        if random.randint(2):
            data.qvel[3] = value

    odd = [seed for seed in range(6) if _draws_one(domain, seed)]
    sim = Simulator(domain._replace(start=start), 6)
    sim.reset(range(6))
    obs = sim.step(np.zeros((6, 6)))
    assert 0 < len(odd) < 6
    assert np.flatnonzero(sim.blown()).tolist() == odd
    assert np.isfinite(obs).all()  # MuJoCo has put the default state in its place, silently
    sim.step(np.zeros((6, 6)))
    assert np.flatnonzero(sim.blown()).tolist() == odd


def _draws_one(domain, seed):
    import mujoco

    random, model = np.random.RandomState(seed), domain.model()
    domain.start(model, mujoco.MjData(model), random)
    return bool(random.randint(2))


def test_reset_forgets_a_divergence_and_dm_control_agrees_on_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = Simulator("cheetah", 2)
    first = sim.reset([0, 1])
    action = np.zeros((2, 6))
    action[1] = np.nan
    sim.step(action)
    assert sim.blown().tolist() == [False, True]
    env = load("cheetah", "run", 1)
    env.reset()
    with pytest.raises(PhysicsError):
        env.step(action[1])
    np.testing.assert_array_equal(sim.reset([0, 1]), first)
    assert not sim.blown().any()


def test_measured_forces_are_mujocos():
    import mujoco

    sim, draw = Simulator("quadruped", 3), np.random.default_rng(0)
    sim.reset(range(3))
    states = []
    for _ in range(60):
        sim.step(draw.uniform(-1, 1, (3, 12)))
        states.append(sim.physics())
    physics = np.stack(states)[-2:]
    found = measure("quadruped", physics, "force_toe_front_left", "qacc")
    model = DOMAINS["quadruped"].model()
    assert found["force_toe_front_left"].shape == (2, 3, 3)
    for place in np.ndindex(2, 3):
        data = mujoco.MjData(model)
        data.qpos, data.qvel, data.act = np.split(physics[place], [model.nq, model.nq + model.nv])
        mujoco.mj_forward(model, data)
        sensed = data.sensor("force_toe_front_left").data
        np.testing.assert_array_equal(found["force_toe_front_left"][place], sensed)
        np.testing.assert_array_equal(found["qacc"][place], data.qacc)
    assert np.abs(found["force_toe_front_left"]).max() > 1
    with pytest.raises(TaskError, match="did you mean 'force_toe_back_left'"):
        measure("quadruped", physics, "force_toe_bak_left")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Simulator("cheeta", 1), TaskError, "did you mean 'cheetah'"),
        (lambda: Simulator("cheetah", 2).reset([0]), DataError, "one for each of 2"),
        (lambda: Simulator("walker", 2).step(np.zeros((2, 5))), DataError, r"\(2, 6\)"),
        (lambda: measure("walker", np.zeros(3), "xpos"), DataError, "18"),
        (lambda: Simulator(DOMAINS["walker"]._replace(obs_dim=3), 1), DataError, r"\(1, 3\)"),
    ],
)
def test_bad_input_is_told(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_import_loads_no_gl_and_sets_nothing():
    code = (
        "import os, sys; before = dict(os.environ); import zsrl_jax.envs;"
        "assert dict(os.environ) == before;"
        "print([m for m in ('OpenGL', 'dm_control', 'mujoco.egl', 'mujoco.osmesa')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
