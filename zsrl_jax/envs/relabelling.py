"""Rewards and named quantities of stored states, in closed form: r = R(qpos, qvel, act).

Arrays of JAX are computed where they are, also inside jit. Arrays of numpy go through a jitted
program in pieces of a few fixed sizes (one compilation each, bounded memory) in their own
precision: float64 states are computed in float64.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from zsrl_jax.envs.domain import Domain
from zsrl_jax.envs.table import find_domain, find_task
from zsrl_jax.errors import DataError

SMALLEST, LARGEST = 256, 8192


def relabel(domain: str | Domain, task: str | Callable[[Any], Any], physics: Any) -> Any:
    """Return the reward [...] of states [..., P], for a task's name or a function of physics."""
    physics = _checked(domain, physics)
    if isinstance(task, str):
        return _apply(find_task(domain, task), physics)
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
    return _apply(find_domain(domain).quantities, _checked(domain, physics))


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


def _apply(function: Callable[[Any], Any], physics: Any) -> Any:
    """Compute a pytree of arrays [..., k] of states [..., P]."""
    if isinstance(physics, jax.Array):
        return function(physics)
    flat = physics.reshape(-1, physics.shape[-1])
    size = min(LARGEST, max(SMALLEST, 1 << max(len(flat) - 1, 0).bit_length()))
    with jax.enable_x64(physics.dtype == np.float64):
        pieces = [
            _piece(function, flat[i : i + size], size) for i in range(0, max(len(flat), 1), size)
        ]
        joined = jax.tree.map(lambda *xs: np.concatenate([np.asarray(x) for x in xs]), *pieces)
    return jax.tree.map(lambda x: x[: len(flat)].reshape(physics.shape[:-1] + x.shape[1:]), joined)


def _piece(function: Callable[[Any], Any], states: np.ndarray, size: int) -> Any:
    if len(states) < size:
        filler = np.zeros((size - len(states), states.shape[1]), states.dtype)
        states = np.concatenate([states, filler])
    return _compiled(function)(states)


@functools.cache
def _compiled(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return jax.jit(function)
