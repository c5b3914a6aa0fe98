"""The planar walker: stand, walk, run (dm_control's) and flip.

stand      = (3 gaussian(height; 1.2, 0.6) + (1 + zz)/2)/4
walk, run  = stand (5 linear(speed; v, v/2, 0.5) + 1)/6,   v = 1, 8
flip       = stand (5 linear(angular momentum_y; 5, 5, 0) + 1)/6
"""

import functools

import jax
import mujoco
import numpy as np
from mujoco.batch import Batch

from zsrl_jax.envs.domain import Domain, Quantities, Reward, suite_files, suite_model
from zsrl_jax.envs.domains import planar
from zsrl_jax.envs.tolerance import gaussian, linear

STAND_HEIGHT, WALK_SPEED, RUN_SPEED, FLIP_MOMENTUM = 1.2, 1.0, 8.0, 5.0
STANDING = "(3*gaussian(height, 1.2, 0.6) + (1 + uprightness)/2)/4"


def model() -> mujoco.MjModel:
    """Return dm_control's walker."""
    return suite_model("walker.xml")


def observe(data: Batch) -> np.ndarray:
    """Return the planar orientation of each body, the torso's height, and velocities."""
    orientation = data.xmat[:, 1:, [0, 2]].reshape(len(data.qvel), -1)
    return np.concatenate([orientation, data.xpos[:, 1, 2:], data.qvel], axis=1)


def quantities(physics: jax.Array) -> Quantities:
    """Return the named quantities of states [..., 18]."""
    return planar.quantities(model(), physics)


def _standing(q: Quantities) -> jax.Array:
    tall = gaussian(q.height, STAND_HEIGHT, STAND_HEIGHT / 2)
    return (3 * tall + (1 + q.uprightness) / 2) / 4


def stand(physics: jax.Array) -> jax.Array:
    """Return the reward for an upright torso at standing height."""
    return _standing(quantities(physics))


def flip(physics: jax.Array) -> jax.Array:
    """Return the reward for standing height with angular momentum about y."""
    q = quantities(physics)
    turning = linear(q.angular_momentum[..., 1], FLIP_MOMENTUM, FLIP_MOMENTUM, 0.0)
    return _standing(q) * (5 * turning + 1) / 6


def _moving(speed: float) -> Reward:
    def reward(physics: jax.Array) -> jax.Array:
        q = quantities(physics)
        return _standing(q) * (5 * linear(q.speed, speed, speed / 2, 0.5) + 1) / 6

    return reward


DOMAIN = Domain(
    name="walker",
    obs_dim=24,
    action_dim=6,
    physics_dim=18,
    substeps=10,
    model=model,
    start=planar.randomize_joints,
    observe=observe,
    quantities=quantities,
    tasks={
        "stand": stand,
        "walk": _moving(WALK_SPEED),
        "run": _moving(RUN_SPEED),
        "flip": flip,
    },
    camera="side",
    texts={
        "stand": STANDING,
        "walk": f"{STANDING}*(5*linear(speed, 1, 0.5, 0.5) + 1)/6",
        "run": f"{STANDING}*(5*linear(speed, 8, 4, 0.5) + 1)/6",
        "flip": f"{STANDING}*(5*linear(angular_momentum_y, 5, 5, 0) + 1)/6",
    },
    xml=functools.partial(suite_files, "walker.xml"),
)
