"""What planar bodies (cheetah, walker) share: named quantities, and how their joints are drawn.

speed = x-velocity of the centre of mass; height = z of the torso; uprightness = R_zz of the torso.
"""

import jax
import mujoco
import numpy as np

from zsrl_jax.envs import kinematics, tree
from zsrl_jax.envs.domain import Quantities


def quantities(model: mujoco.MjModel, physics: jax.Array, root: str = "torso") -> Quantities:
    """Return the named quantities of states [..., P]."""
    found = tree.bodies(model, physics)
    whole, torso = tree.subtree(model, found, root), found[root]
    x = physics[..., 0]
    limited = np.flatnonzero(model.jnt_limited)
    return Quantities(
        speed=kinematics.center_velocity(whole)[0],
        height=torso.shift[2],
        uprightness=torso.rotation[2][2],
        angular_momentum=kinematics.stack(kinematics.angular_momentum(whole), x),
        center_of_mass=kinematics.stack(kinematics.center_of_mass(whole), x),
        joint_angle=physics[..., model.jnt_qposadr[limited]],
        joint_speed=physics[..., model.nq + model.jnt_dofadr[limited]],
    )


def randomize_joints(
    model: mujoco.MjModel, data: mujoco.MjData, random: np.random.RandomState
) -> None:
    """Draw limited joints within their limits and free hinges anywhere, as dm_control does."""
    for j in range(model.njnt):
        if model.jnt_limited[j]:
            data.qpos[j] = random.uniform(*model.jnt_range[j])
        elif model.jnt_type[j] == mujoco.mjtJoint.mjJNT_HINGE:
            data.qpos[j] = random.uniform(-np.pi, np.pi)
