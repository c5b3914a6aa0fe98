"""From qpos and qvel to the bodies of `kinematics`: a walk down the model's tree of joints.

    slide: d = a (q - q0)                  adds a qd to the velocity
    hinge: R <- R Rot(a, q - q0) about its anchor, adds a qd to the spin
    free:  x = q[:3], R = R(q[3:7]), velocity qd[:3] (world), spin R qd[3:6] (body axes)

No domain here needs ball joints; they are refused by name.
"""

from typing import NamedTuple

import jax
import mujoco
import numpy as np

from zsrl_jax.envs import kinematics as k
from zsrl_jax.errors import DataError

JOINT = mujoco.mjtJoint


class Frame(NamedTuple):
    """A body's frame while its joints are applied; see kinematics.Body for the fields."""

    position: k.Vector
    rotation: k.Matrix
    velocity: k.Vector
    spin: k.Vector
    shift: k.Vector
    drift: k.Vector


def bodies(model: mujoco.MjModel, physics: jax.Array) -> dict[str, k.Body]:
    """Return every moving body of a model by name, for states physics [..., P]."""
    world = Frame(k.ZERO, k.IDENTITY, k.ZERO, k.ZERO, k.ZERO, k.ZERO)
    frames, found = {0: world}, {}
    for i in range(1, model.nbody):
        frame = _attach(model, i, frames[int(model.body_parentid[i])])
        for j in range(int(model.body_jntadr[i]), int(model.body_jntadr[i] + model.body_jntnum[i])):
            frame = _move(model, j, physics, frame, root=int(model.body_parentid[i]) == 0)
        frames[i] = frame
        found[model.body(i).name] = _body(model, i, frame)
    return found


def subtree(model: mujoco.MjModel, found: dict[str, k.Body], root: str) -> list[k.Body]:
    """Return a body and all below it, in the model's order."""
    members = {model.body(root).id}
    for i in range(model.nbody):
        if int(model.body_parentid[i]) in members:
            members.add(i)
    return [found[model.body(i).name] for i in sorted(members)]


def _attach(model: mujoco.MjModel, i: int, parent: Frame) -> Frame:
    """Return the frame of body i before its joints: its parent's, offset."""
    turned = k.compose(parent.rotation, _constant_rotation(model.body_quat[i]))
    offset = k.rotate(parent.rotation, k.constant(model.body_pos[i]))
    if int(model.body_parentid[i]) == 0:
        return parent._replace(rotation=turned, shift=offset)
    return parent._replace(
        position=k.add(parent.position, offset),
        rotation=turned,
        velocity=k.add(parent.velocity, k.cross(parent.spin, offset)),
    )


def _move(model: mujoco.MjModel, j: int, physics: jax.Array, frame: Frame, root: bool) -> Frame:
    """Apply joint j; a root's translation goes to shift and drift."""
    q, v = int(model.jnt_qposadr[j]), model.nq + int(model.jnt_dofadr[j])
    kind = int(model.jnt_type[j])
    if kind == JOINT.mjJNT_FREE:
        rotation = k.from_quaternion([physics[..., q + 3 + n] for n in range(4)])
        return Frame(
            position=k.ZERO,
            rotation=rotation,
            velocity=k.ZERO,
            spin=k.rotate(rotation, _columns(physics, v + 3)),
            shift=_columns(physics, q),
            drift=_columns(physics, v),
        )
    axis = k.constant(model.jnt_axis[j])
    turned = k.rotate(frame.rotation, axis)
    angle = k.plus(physics[..., q], -float(model.qpos0[q]))
    if kind == JOINT.mjJNT_SLIDE:
        offset = k.scale(angle, turned)
        gained = k.add(k.cross(frame.spin, offset), k.scale(physics[..., v], turned))
        if root:
            return frame._replace(
                shift=k.add(frame.shift, offset), drift=k.add(frame.drift, gained)
            )
        return frame._replace(
            position=k.add(frame.position, offset), velocity=k.add(frame.velocity, gained)
        )
    if kind != JOINT.mjJNT_HINGE:
        raise DataError(f"joint '{model.joint(j).name}' is a ball: use hinges, or envs.measure")
    return _hinge(k.constant(model.jnt_pos[j]), axis, angle, physics[..., v], frame)


def _hinge(anchor: k.Vector, axis: k.Vector, angle: k.Scalar, rate: k.Scalar, f: Frame) -> Frame:
    """Turn a frame about an anchor (in the body's axes)."""
    rotation = k.compose(f.rotation, k.turn(axis, angle))
    arm = k.scale(-1.0, k.rotate(rotation, anchor))  # from the anchor to the new origin
    offset = k.add(k.rotate(f.rotation, anchor), arm)
    gained = k.scale(rate, k.rotate(f.rotation, axis))
    return f._replace(
        position=k.add(f.position, offset),
        rotation=rotation,
        velocity=k.add(f.velocity, k.cross(f.spin, offset), k.cross(gained, arm)),
        spin=k.add(f.spin, gained),
    )


def _body(model: mujoco.MjModel, i: int, f: Frame) -> k.Body:
    """Add mass, centre and angular momentum to a finished frame."""
    offset = k.rotate(f.rotation, k.constant(model.body_ipos[i]))
    axes = _axes(model.body_iquat[i])
    inertia = axes @ np.diag(model.body_inertia[i]) @ axes.T
    local = k.rotate(k.transpose(f.rotation), f.spin)
    x, y, z = (k.constant(row) for row in inertia)
    return k.Body(
        mass=float(model.body_mass[i]),
        position=f.position,
        rotation=f.rotation,
        velocity=f.velocity,
        spin=f.spin,
        center=k.add(f.position, offset),
        center_velocity=k.add(f.velocity, k.cross(f.spin, offset)),
        momentum=k.rotate(f.rotation, k.rotate((x, y, z), local)),
        shift=f.shift,
        drift=f.drift,
    )


def _axes(quat: np.ndarray) -> np.ndarray:
    flat = np.zeros(9)
    mujoco.mju_quat2Mat(flat, quat)
    return flat.reshape(3, 3)


def _constant_rotation(quat: np.ndarray) -> k.Matrix:
    x, y, z = (k.constant(row) for row in _axes(quat))
    return (x, y, z)


def _columns(physics: jax.Array, at: int) -> k.Vector:
    return (physics[..., at], physics[..., at + 1], physics[..., at + 2])
