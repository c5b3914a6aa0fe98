"""The quadruped: walk, run (dm_control's), stand and jump.

stand      = (1 + zz)/2
walk, run  = stand * linear(forward speed of the torso, its own axes; v, v, 0.5),  v = 0.5, 5
jump       = stand * linear(height of the centre of mass; 1, 1, 0.5)
"""

import bisect
import functools
from xml.etree import ElementTree

import jax
import mujoco
import numpy as np
from mujoco.batch import Batch

from zsrl_jax.envs import kinematics, tree
from zsrl_jax.envs.domain import Domain, Quantities, Reward, suite_file, suite_files
from zsrl_jax.envs.tolerance import linear

WALK_SPEED, RUN_SPEED, JUMP_HEIGHT = 0.5, 5.0, 1.0
FLOOR = 100.0  # half-width of the floor as drawn; for contacts it is infinite
HEIGHTS = np.cumsum(np.r_[0.0, np.full(9_999, 0.01)])  # dm_control adds 1 cm at a time
FORCES = (mujoco.mjtSensor.mjSENS_FORCE, mujoco.mjtSensor.mjSENS_TORQUE)
INERTIAL = (mujoco.mjtSensor.mjSENS_GYRO, mujoco.mjtSensor.mjSENS_ACCELEROMETER)


@functools.cache
def model() -> mujoco.MjModel:
    """Return dm_control's quadruped on a bare floor: no walls, ball, terrain or rangefinders."""
    spec = mujoco.MjSpec.from_file(str(suite_file("quadruped.xml")))
    rangefinder = mujoco.mjtSensor.mjSENS_RANGEFINDER
    spare = [x for x in spec.geoms if x.name.startswith("wall") or x.name == "terrain"]
    spare += [x for x in spec.sensors if x.type == rangefinder]
    for item in [*spare, spec.body("ball"), spec.site("target")]:
        spec.delete(item)
    spec.geom("floor").size = [FLOOR, FLOOR, 0.5]
    return spec.compile()


def bare_floor() -> dict[str, str]:
    """Return the text of `model` and its includes: dm_control's file, with the same parts removed.

    MjSpec would write it too, but with fewer digits.
    """
    files = suite_files("quadruped.xml")
    root = ElementTree.fromstring(files["quadruped.xml"])
    for parent in list(root.iter()):
        for item in list(parent):
            name, kind = item.get("name", ""), item.tag
            spare = kind == "geom" and (name.startswith("wall") or name == "terrain")
            spare |= (kind, name) in (("body", "ball"), ("site", "target"))
            if spare or kind == "rangefinder":
                parent.remove(item)
            elif (kind, name) == ("geom", "floor"):
                item.set("size", f"{FLOOR} {FLOOR} .5")
    return files | {"quadruped.xml": ElementTree.tostring(root, "unicode")}


def start(model: mujoco.MjModel, data: mujoco.MjData, random: np.random.RandomState) -> None:
    """Draw an orientation and lift the body in dm_control's steps until it touches nothing."""
    _lift(model, data, random.randn(4))


def standing(model: mujoco.MjModel, data: mujoco.MjData, random: np.random.RandomState) -> None:
    """Draw a heading and put the body on its feet."""
    half = random.uniform(0, np.pi)
    _lift(model, data, np.array([np.cos(half), 0, 0, np.sin(half)]))


def _lift(model: mujoco.MjModel, data: mujoco.MjData, orientation: np.ndarray) -> None:
    data.qpos[3:7] = orientation / np.linalg.norm(orientation)

    def is_clear(height: float) -> bool:
        data.qpos[:3] = 0, 0, height
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        return data.ncon == 0

    # lifting only ends contacts, so bisection finds the first height without any
    data.qpos[2] = HEIGHTS[bisect.bisect_left(HEIGHTS, True, key=is_clear)]


@functools.cache
def _columns() -> tuple[np.ndarray, ...]:
    """Return where hinges and sensors of each kind lie in qpos, qvel and sensordata."""
    robot = model()
    hinge = np.flatnonzero(robot.jnt_type == mujoco.mjtJoint.mjJNT_HINGE)

    def sensors(kinds: tuple) -> np.ndarray:
        chosen = np.flatnonzero(np.isin(robot.sensor_type, kinds))
        spans = [np.arange(robot.sensor_dim[i]) + robot.sensor_adr[i] for i in chosen]
        return np.concatenate(spans)

    velocity = sensors((mujoco.mjtSensor.mjSENS_VELOCIMETER,))
    angle, speed = robot.jnt_qposadr[hinge], robot.jnt_dofadr[hinge]
    return angle, speed, velocity, sensors(INERTIAL), sensors(FORCES)


def observe(data: Batch) -> np.ndarray:
    """Return joints, activations, torso velocity and tilt, inertial and (scaled) force sensors."""
    angle, speed, velocity, inertial, force = _columns()
    sensed, torso = data.sensordata, model().body("torso").id
    parts = [data.qpos[:, angle], data.qvel[:, speed], data.act, sensed[:, velocity]]
    parts += [data.xmat[:, torso, 8:], sensed[:, inertial], np.arcsinh(sensed[:, force])]
    return np.concatenate(parts, axis=1)


def quantities(physics: jax.Array) -> Quantities:
    """Return the named quantities of states [..., 57]; speed is the torso's own forward speed."""
    robot = model()
    found = tree.bodies(robot, physics)
    torso, whole = found["torso"], list(found.values())
    angle, speed, *_ = _columns()
    x = physics[..., 0]
    return Quantities(
        speed=kinematics.rotate(kinematics.transpose(torso.rotation), torso.drift)[0],
        height=torso.shift[2],
        uprightness=torso.rotation[2][2],
        angular_momentum=kinematics.stack(kinematics.angular_momentum(whole), x),
        center_of_mass=kinematics.stack(kinematics.center_of_mass(whole), x),
        joint_angle=physics[..., angle],
        joint_speed=physics[..., robot.nq + speed],
    )


def stand(physics: jax.Array) -> jax.Array:
    """Return the reward for an upright torso."""
    return (1 + quantities(physics).uprightness) / 2


def jump(physics: jax.Array) -> jax.Array:
    """Return the reward for an upright torso and a high centre of mass."""
    q = quantities(physics)
    lifted = linear(q.center_of_mass[..., 2], JUMP_HEIGHT, JUMP_HEIGHT, 0.5)
    return (1 + q.uprightness) / 2 * lifted


def _moving(target: float) -> Reward:
    def reward(physics: jax.Array) -> jax.Array:
        q = quantities(physics)
        return (1 + q.uprightness) / 2 * linear(q.speed, target, target, 0.5)

    return reward


DOMAIN = Domain(
    name="quadruped",
    obs_dim=78,
    action_dim=12,
    physics_dim=57,
    substeps=4,
    model=model,
    start=start,
    observe=observe,
    quantities=quantities,
    tasks={
        "stand": stand,
        "walk": _moving(WALK_SPEED),
        "run": _moving(RUN_SPEED),
        "jump": jump,
    },
    camera="y",
    standing=standing,
    pushed=True,
    texts={
        "stand": "(1 + uprightness)/2",
        "walk": "(1 + uprightness)/2*linear(speed, 0.5, 0.5, 0.5)",
        "run": "(1 + uprightness)/2*linear(speed, 5, 5, 0.5)",
        "jump": "(1 + uprightness)/2*linear(center_of_mass_z, 1, 1, 0.5)",
    },
    xml=bare_floor,
)
