"""Rewards and named quantities of stored states, in closed form: r = R(qpos, qvel, act).

JAX arrays are computed where they are, also inside jit. Numpy arrays keep their precision (float64
states are computed in float64) and are split into chunks, which bounds the memory. Their rewards
are computed by a jitted program of a few fixed sizes, their quantities in numpy itself.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from zsrl_jax.envs.domain import Domain
from zsrl_jax.envs.registry import find_domain, find_task
from zsrl_jax.errors import DataError

SMALLEST, LARGEST = 256, 8192


def relabel(domain: str | Domain, task: str | Callable[[Any], Any], physics: Any) -> Any:
    """Return the reward [...] of states [..., P], for a task's name or a function of physics."""
    physics = _checked(domain, physics)
    if isinstance(task, str):
        function = find_task(domain, task)
        return function(physics) if isinstance(physics, jax.Array) else _jitted(function, physics)
    reward = task(physics)
    module = jnp if isinstance(physics, jax.Array) else np
    reward = module.asarray(reward, physics.dtype)
    if reward.shape != physics.shape[:-1]:
        raise DataError(
            f"reward {reward.shape} of states {physics.shape}: expected {physics.shape[:-1]}"
        )
    return reward


def quantities(domain: str | Domain, physics: Any) -> Any:
    """Return the named quantities of states [..., P]: speed, height, uprightness, ..."""
    function, physics = find_domain(domain).quantities, _checked(domain, physics)
    return function(physics) if isinstance(physics, jax.Array) else _pieces(function, physics)


def _checked(domain: str | Domain, physics: Any) -> Any:
    found = find_domain(domain)
    if not isinstance(physics, jax.Array):
        physics = np.asarray(physics)
        if physics.dtype != np.float32:
            physics = physics.astype(np.float64, copy=False)
    if physics.ndim == 0 or physics.shape[-1] != found.physics_dim:
        expected = f"[..., {found.physics_dim}] (qpos, qvel, act) for {found.name}"
        raise DataError(f"physics {physics.shape}: expected {expected}")
    return physics


def _jitted(function: Callable[[Any], Any], physics: np.ndarray) -> np.ndarray:
    """Compute a function of states [..., P] by a program of one of a few fixed sizes."""
    count = math.prod(physics.shape[:-1])
    size = min(LARGEST, max(SMALLEST, 1 << max(count - 1, 0).bit_length()))
    program = _compiled(function)

    def run(states: np.ndarray) -> np.ndarray:
        if len(states) == size:
            return np.asarray(program(states))
        padded = np.zeros((size, states.shape[1]), states.dtype)
        padded[: len(states)] = states
        whole: np.ndarray = np.asarray(program(padded))
        return whole[: len(states)]

    with jax.enable_x64(physics.dtype == np.float64):
        found: np.ndarray = _pieces(run, physics)
        return found


def _pieces(function: Callable[[Any], Any], physics: np.ndarray) -> Any:
    """Apply a function of states [n, P] to states [..., P], chunk by chunk."""
    flat = physics.reshape(-1, physics.shape[-1])
    pieces = [function(flat[i : i + LARGEST]) for i in range(0, max(len(flat), 1), LARGEST)]
    shape = physics.shape[:-1]
    return jax.tree.map(lambda *xs: np.concatenate(xs).reshape(shape + xs[0].shape[1:]), *pieces)


@functools.cache
def _compiled(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return jax.jit(function)
