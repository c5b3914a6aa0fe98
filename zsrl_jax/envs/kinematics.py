"""Positions, velocities and momenta of a model's bodies, in closed form and in JAX.

    x_b = x_p + R_p o_b + d(q),   v_b = v_p + w_p x (x_b - x_p) + J_b qd
    c = sum m_b x_b / M,          L = sum [m_b x_b x v_b + R_b I_b R_b^T w_b] - M c x c'

The tree is walked once in Python; masses, offsets and inertias come from the MuJoCo model.
Scalars that are known while tracing stay Python floats, and products with 0 and 1 are dropped,
so a planar model costs planar arithmetic though the code is three-dimensional. Positions and
velocities are relative to each tree's root, whose `shift` and `drift` are added last: far from the
origin float32 would otherwise lose the digits that rewards need. Numpy arrays are accepted too,
and give numpy arrays.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

Scalar = Any  # a Python float known while tracing, or an array over states
Vector = tuple[Scalar, Scalar, Scalar]
Matrix = tuple[Vector, Vector, Vector]

ZERO: Vector = (0.0, 0.0, 0.0)
IDENTITY: Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


class Body(NamedTuple):
    """One body: origin and centre of mass relative to its root, axes and velocities."""

    mass: float
    position: Vector
    rotation: Matrix
    velocity: Vector
    spin: Vector
    center: Vector
    center_velocity: Vector
    momentum: Vector  # angular, about its own centre
    shift: Vector
    drift: Vector


def times(a: Scalar, b: Scalar) -> Scalar:
    """Multiply, dropping a factor known to be 0 or 1."""
    if isinstance(b, float):
        a, b = b, a
    if isinstance(a, float) and a in (0.0, 1.0):
        return b if a else 0.0
    return a * b


def plus(*terms: Scalar) -> Scalar:
    """Add, dropping terms known to be 0."""
    kept = [x for x in terms if not (isinstance(x, float) and x == 0.0)]
    return sum(kept[1:], kept[0]) if kept else 0.0


def scale(a: Scalar, u: Vector) -> Vector:
    """Return a u."""
    return (times(a, u[0]), times(a, u[1]), times(a, u[2]))


def add(*vectors: Vector) -> Vector:
    """Return the sum of vectors."""
    x, y, z = zip(*vectors, strict=True)
    return (plus(*x), plus(*y), plus(*z))


def subtract(u: Vector, v: Vector) -> Vector:
    """Return u - v."""
    return add(u, scale(-1.0, v))


def cross(u: Vector, v: Vector) -> Vector:
    """Return u x v."""

    def minor(i: int, j: int) -> Scalar:
        return plus(times(u[i], v[j]), times(-1.0, times(u[j], v[i])))

    return (minor(1, 2), minor(2, 0), minor(0, 1))


def rotate(rotation: Matrix, u: Vector) -> Vector:
    """Return R u."""
    x, y, z = (plus(*(times(a, b) for a, b in zip(row, u, strict=True))) for row in rotation)
    return (x, y, z)


def transpose(rotation: Matrix) -> Matrix:
    """Return R^T."""
    x, y, z = zip(*rotation, strict=True)
    return (x, y, z)


def compose(left: Matrix, right: Matrix) -> Matrix:
    """Return the product of two rotations."""
    x, y, z = (rotate(left, column) for column in transpose(right))
    return transpose((x, y, z))


def turn(axis: Vector, angle: Scalar) -> Matrix:
    """Return the rotation by an angle about a constant unit axis (Rodrigues)."""
    module = namespace(angle)
    c, s = module.cos(angle), module.sin(angle)

    def entry(i: int, j: int) -> Scalar:
        if i == j:
            return 1.0 if axis[i] ** 2 == 1.0 else plus(c, times(axis[i] ** 2, 1 - c))
        sign = 1.0 if (j - i) % 3 == 2 else -1.0
        return plus(times(axis[i] * axis[j], 1 - c), times(sign * axis[3 - i - j], s))

    x, y, z = ((entry(i, 0), entry(i, 1), entry(i, 2)) for i in range(3))
    return (x, y, z)


def from_quaternion(quat: Sequence[Scalar]) -> Matrix:
    """Return the rotation of a quaternion of any length."""
    w, x, y, z = quat
    s = 2 / (w * w + x * x + y * y + z * z)
    return (
        (1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)),
        (s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x)),
        (s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y)),
    )


def constant(values: np.ndarray) -> Vector:
    """Return a model's vector as Python floats."""
    x, y, z = (float(v) for v in values)
    return (x, y, z)


def stack(u: Vector, like: Any) -> Any:
    """Return a vector as an array whose last axis is 3."""
    module = namespace(like)
    x, y, z = (module.broadcast_to(module.asarray(v, like.dtype), like.shape)[..., None] for v in u)
    if module is np:
        return np.concatenate([x, y, z], axis=-1)
    # not a concatenation: XLA fuses everything before it into one loop with branches, which the
    # CPU cannot vectorise (50 times slower for the quadruped's angular momentum)
    axis = jnp.arange(3).reshape((1,) * like.ndim + (3,))
    return jnp.where(axis == 0, x, jnp.where(axis == 1, y, z))


def namespace(x: Any) -> Any:
    """Return numpy for its arrays, else jax.numpy."""
    return np if isinstance(x, np.ndarray) else jnp


def center_of_mass(bodies: Sequence[Body]) -> Vector:
    """Return the centre of mass of bodies of one tree, in the world."""
    return add(bodies[0].shift, _mean(bodies, [b.center for b in bodies]))


def center_velocity(bodies: Sequence[Body]) -> Vector:
    """Return the velocity of the centre of mass of bodies of one tree."""
    return add(bodies[0].drift, _mean(bodies, [b.center_velocity for b in bodies]))


def angular_momentum(bodies: Sequence[Body]) -> Vector:
    """Return the angular momentum of bodies of one tree about their centre of mass."""
    first = bodies[0]
    places = [subtract(b.center, first.center) for b in bodies]
    speeds = [subtract(b.center_velocity, first.center_velocity) for b in bodies]
    orbits = [scale(b.mass, cross(x, v)) for b, x, v in zip(bodies, places, speeds, strict=True)]
    # sum m x x v - M c x c', not sum m (x - c) x (v - c'): XLA would compute c anew for each body
    total = sum(b.mass for b in bodies)
    whole = scale(-total, cross(_mean(bodies, places), _mean(bodies, speeds)))
    return add(*orbits, whole, *(b.momentum for b in bodies))


def _mean(bodies: Sequence[Body], values: Sequence[Vector]) -> Vector:
    total = sum(b.mass for b in bodies)
    return add(*(scale(b.mass / total, v) for b, v in zip(bodies, values, strict=True)))
