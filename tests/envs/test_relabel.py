"""Closed-form rewards and quantities against dm_control and MuJoCo."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from dm_control.utils import rewards
from hypothesis import given, settings
from hypothesis import strategies as st

from zsrl_jax.envs import DOMAINS, Quantities, kinematics, quantities, relabel, suite, tree
from zsrl_jax.envs.domains import point_mass_maze
from zsrl_jax.envs.relabelling import LARGEST
from zsrl_jax.envs.tolerance import gaussian, linear
from zsrl_jax.errors import DataError, TaskError

TASKS = [(name, task) for name, domain in DOMAINS.items() for task in domain.tasks]


def random_states(model, count, seed=0):
    """States anywhere: far from the origin, any tilt, joints within limits, speeds of a few m/s."""
    draw = np.random.default_rng(seed)
    qpos = np.tile(model.qpos0, (count, 1))
    for j in range(model.njnt):
        at, kind = model.jnt_qposadr[j], model.jnt_type[j]
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            qpos[:, at : at + 3] = draw.uniform(-1, 1, (count, 3)) * [50, 50, 1.5]
            qpos[:, at + 3 : at + 7] = draw.normal(size=(count, 4))  # MuJoCo normalises it
        elif model.jnt_limited[j]:
            qpos[:, at] = draw.uniform(*model.jnt_range[j], count)
        elif kind == mujoco.mjtJoint.mjJNT_HINGE:
            qpos[:, at] = draw.uniform(-10, 10, count)
        else:
            qpos[:, at] = draw.uniform(-1, 1, count) * (50 if model.jnt_axis[j][0] else 1)
    qvel, act = 3 * draw.normal(size=(count, model.nv)), draw.uniform(-1, 1, (count, model.na))
    return np.concatenate([qpos, qvel, act], axis=1)


def dm_control_rewards(domain, task, physics):
    env = suite.load(domain, task, random=0)
    env.reset()
    found = []
    for state in physics.astype(np.float64):
        with env.physics.reset_context():
            env.physics.set_state(state)
        found.append(float(env.task.get_reward(env.physics)))
    return np.array(found)


@pytest.mark.parametrize(("domain", "task"), TASKS)
def test_rewards_equal_dm_controls(domain, task):
    physics = random_states(DOMAINS[domain].model(), 400)
    if domain == "point_mass_maze":  # as many states near the goal as far from it
        goal = point_mass_maze.GOALS[task]
        physics[::2, :2] = goal + np.random.default_rng(0).normal(size=(200, 2)) / 50
    wanted = dm_control_rewards(domain, task, physics)
    found = relabel(domain, task, physics)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    assert wanted.std() > 0.01
    single = physics.astype(np.float32)
    found = relabel(domain, task, single)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, dm_control_rewards(domain, task, single), rtol=0, atol=1e-6)


def forwarded(model, state):
    data = mujoco.MjData(model)
    data.qpos, data.qvel, data.act = np.split(state, [model.nq, model.nq + model.nv])
    mujoco.mj_forward(model, data)
    mujoco.mj_subtreeVel(model, data)
    return data


@pytest.mark.parametrize("name", ["cheetah", "walker", "quadruped"])
def test_quantities_equal_mujocos(name):
    model = DOMAINS[name].model()
    physics = random_states(model, 20, seed=1)
    found = quantities(name, physics)
    assert isinstance(found, Quantities)
    joints = [j for j in range(model.njnt) if model.jnt_limited[j]]
    for i, state in enumerate(physics):
        data = forwarded(model, state)
        torso = data.body("torso")
        if name == "quadruped":
            speed = data.sensor("velocimeter").data[0]
        else:
            speed = data.sensor("torso_subtreelinvel").data[0]
        close = {"rtol": 0, "atol": 1e-11}
        np.testing.assert_allclose(found.speed[i], speed, **close)
        np.testing.assert_allclose(found.height[i], torso.xpos[2], **close)
        np.testing.assert_allclose(found.uprightness[i], torso.xmat[8], **close)
        np.testing.assert_allclose(found.center_of_mass[i], torso.subtree_com, **close)
        np.testing.assert_allclose(found.angular_momentum[i], torso.subtree_angmom, **close)
        for k, j in enumerate(joints):
            assert found.joint_angle[i, k] == data.qpos[model.jnt_qposadr[j]]
            assert found.joint_speed[i, k] == data.qvel[model.jnt_dofadr[j]]


@pytest.mark.parametrize("name", DOMAINS)
def test_quantities_on_the_device_equal_numpys(name):
    physics = random_states(DOMAINS[name].model(), 20, seed=1)
    wanted = quantities(name, physics)
    with jax.enable_x64(True):
        found = jax.jit(lambda x: quantities(name, x))(jnp.asarray(physics))
        for mine, theirs in zip(found, wanted, strict=True):
            assert isinstance(mine, jax.Array) and isinstance(theirs, np.ndarray)
            assert mine.dtype == theirs.dtype == np.float64
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


CHAIN = """
<mujoco><worldbody>
  <body name="a" pos=".1 -.2 .5" euler="20 30 40"><joint type="hinge" axis="1 2 3" pos=".1 .2 .3"/>
    <joint type="slide" axis="0 1 1"/><geom size=".1 .2 .3" type="box" pos=".1 0 .2" euler="5 6 7"/>
    <body name="b" pos=".3 .1 0" euler="0 -50 10"><joint type="slide" axis="1 0 2"/>
      <joint type="hinge" axis="0 0 1" pos="0 .1 0" ref="17"/><geom size=".1 .3" type="capsule"/>
      <body name="c" pos="0 0 .4"><geom size=".1" pos=".2 0 0"/></body></body></body>
  <body name="free" pos="2 0 1"><freejoint/><geom size=".1 .1 .2" type="box" pos="0 0 .1"/>
    <body name="d" pos="0 .3 0"><joint axis="1 0 0"/><geom size=".1"/></body></body>
</worldbody></mujoco>
"""


@pytest.mark.parametrize("root", ["a", "b", "free"])
def test_any_tree_of_hinges_slides_and_free_joints(root):
    """Anchors, references, slides behind hinges, several trees: more than our domains have."""
    model = mujoco.MjModel.from_xml_string(CHAIN)
    physics = random_states(model, 10, seed=2)
    with jax.enable_x64(True):
        x = jnp.asarray(physics)
        found = tree.bodies(model, x)
        below = tree.subtree(model, found, root)
        center = kinematics.stack(kinematics.center_of_mass(below), x[:, 0])
        velocity = kinematics.stack(kinematics.center_velocity(below), x[:, 0])
        momentum = kinematics.stack(kinematics.angular_momentum(below), x[:, 0])
        place = kinematics.stack(kinematics.add(found[root].shift, found[root].position), x[:, 0])
    for i, state in enumerate(physics):
        body, close = forwarded(model, state).body(root), {"rtol": 1e-12, "atol": 1e-12}
        np.testing.assert_allclose(place[i], body.xpos, **close)
        np.testing.assert_allclose(center[i], body.subtree_com, **close)
        np.testing.assert_allclose(velocity[i], body.subtree_linvel, **close)
        np.testing.assert_allclose(momentum[i], body.subtree_angmom, **close)


def test_ball_joints_are_refused_by_name():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint name='hip' type='ball'/><geom size='1'/></body>"
        "</worldbody></mujoco>"
    )
    with pytest.raises(DataError, match="'hip' is a ball"):
        tree.bodies(model, jnp.zeros((1, 7)))


def test_constants_come_from_the_model():
    """A heavier foot moves the centre of mass as it does in MuJoCo."""
    model = mujoco.MjModel.from_xml_string(CHAIN)
    physics = random_states(model, 1)
    model.body("c").mass = 40.0
    mujoco.mj_setConst(model, mujoco.MjData(model))
    with jax.enable_x64(True):
        found = tree.subtree(model, tree.bodies(model, jnp.asarray(physics)), "a")
        center = kinematics.stack(kinematics.center_of_mass(found), jnp.asarray(physics[:, 0]))
    data = forwarded(model, physics[0])
    np.testing.assert_allclose(center[0], data.body("a").subtree_com, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(-20, 20),
    st.floats(-5, 10),
    st.floats(0.1, 10),
    st.floats(0, 0.9),
)
def test_shapes_equal_dm_controls_tolerance(x, low, margin, value):
    bounds = (low, float("inf"))
    with jax.enable_x64(True):
        line, bell = (
            linear(jnp.float64(x), low, margin, value),
            gaussian(jnp.float64(x), low, margin),
        )
    wanted = rewards.tolerance(x, bounds, margin, "linear", value)
    assert float(line) == pytest.approx(wanted, abs=1e-12)
    assert float(bell) == pytest.approx(rewards.tolerance(x, bounds, margin), abs=1e-12)


def test_shapes_by_hand():
    assert float(linear(jnp.float32(0.5), 1.0, 1.0, 0.5)) == 0.75
    assert float(linear(jnp.float32(-3.0), 1.0, 1.0, 0.5)) == 0.0
    assert float(linear(jnp.float32(7.0), 1.0, 1.0, 0.5)) == 1.0
    assert float(gaussian(jnp.float32(0.6), 1.2, 0.6)) == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 5), (257,), (LARGEST + 3,)])
def test_any_number_of_states(shape):
    physics = random_states(DOMAINS["cheetah"].model(), max(1, int(np.prod(shape))))
    physics = physics[: int(np.prod(shape))].reshape(*shape, 18)
    found = relabel("cheetah", "walk", physics)
    assert found.shape == shape and found.dtype == np.float64
    flat = physics.reshape(-1, 18)
    if len(flat):
        last = relabel("cheetah", "walk", flat[-1])
        assert np.asarray(found).reshape(-1)[-1] == pytest.approx(float(last), abs=1e-14)
    assert quantities("cheetah", physics).center_of_mass.shape == (*shape, 3)


def test_on_the_device_inside_jit():
    physics = random_states(DOMAINS["walker"].model(), 6).astype(np.float32)
    on_device = jax.jit(lambda x: relabel("walker", "flip", x))(jnp.asarray(physics))
    assert isinstance(on_device, jax.Array)
    np.testing.assert_allclose(on_device, relabel("walker", "flip", physics), atol=1e-6)
    gradient = jax.grad(lambda x: quantities("walker", x).speed.sum())(jnp.asarray(physics))
    assert jnp.isfinite(gradient).all()


def test_a_reward_of_ones_own():
    physics = random_states(DOMAINS["walker"].model(), 50)
    found = relabel("walker", lambda x: quantities("walker", x).height > 1, physics)
    assert found.dtype == np.float64 and set(found) == {0.0, 1.0}
    np.testing.assert_array_equal(found == 1, physics[:, 0] + 1.3 > 1)
    with pytest.raises(DataError, match=r"expected \(50,\)"):
        relabel("walker", lambda x: x, physics)


def test_bad_names_and_widths_are_told():
    physics = np.zeros((2, 18))
    with pytest.raises(TaskError, match="did you mean 'flip'"):
        relabel("walker", "flips", physics)
    with pytest.raises(TaskError, match="known: cheetah, point_mass_maze, quadruped, walker"):
        quantities("dog", physics)
    with pytest.raises(DataError, match=r"physics \(2, 18\): expected \[\.\.\., 57\]"):
        relabel("quadruped", "stand", physics)
