"""The cheetah: run and walk, forwards and backwards (dm_control has only run).

reward = clip(x / v, 0, 1),   x = forward (or backward) speed of the centre of mass, v = 2, 10
"""

import functools

import jax
import mujoco
import numpy as np
from mujoco.batch import Batch

from zsrl_jax.envs.domain import Domain, Quantities, Reward, suite_files, suite_model
from zsrl_jax.envs.domains import planar
from zsrl_jax.envs.tolerance import linear

WALK_SPEED, RUN_SPEED = 2.0, 10.0
SETTLE = 200


def model() -> mujoco.MjModel:
    """Return dm_control's cheetah."""
    return suite_model("cheetah.xml")


def start(model: mujoco.MjModel, data: mujoco.MjData, random: np.random.RandomState) -> None:
    """Draw joint angles within their limits, as dm_control does.

    The simulator takes the settling steps that follow, except the first. dm_control takes that one
    with the kinematics of the default pose, so here it is mj_step2 alone.
    """
    limited = model.jnt_limited == 1
    low, high = model.jnt_range[limited].T
    data.qpos[limited] = random.uniform(low, high)
    mujoco.mj_step2(model, data)


def observe(data: Batch) -> np.ndarray:
    """Return all positions except the horizontal one, and velocities."""
    return np.concatenate([data.qpos[:, 1:], data.qvel], axis=1)


def quantities(physics: jax.Array) -> Quantities:
    """Return the named quantities of states [..., 18]."""
    return planar.quantities(model(), physics)


def _along(direction: float, target: float) -> Reward:
    def reward(physics: jax.Array) -> jax.Array:
        return linear(direction * quantities(physics).speed, target, target, 0.0)

    return reward


DOMAIN = Domain(
    name="cheetah",
    obs_dim=17,
    action_dim=6,
    physics_dim=18,
    substeps=1,
    model=model,
    start=start,
    settle=SETTLE - 1,
    observe=observe,
    quantities=quantities,
    tasks={
        "walk": _along(1.0, WALK_SPEED),
        "run": _along(1.0, RUN_SPEED),
        "walk_backward": _along(-1.0, WALK_SPEED),
        "run_backward": _along(-1.0, RUN_SPEED),
    },
    camera="side",
    texts={
        "walk": "clip(speed/2, 0, 1)",
        "run": "clip(speed/10, 0, 1)",
        "walk_backward": "clip(-speed/2, 0, 1)",
        "run_backward": "clip(-speed/10, 0, 1)",
    },
    xml=functools.partial(suite_files, "cheetah.xml"),
)
