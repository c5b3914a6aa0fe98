"""Scan over updates, and the table of random streams.

Update t of a seed draws everything from fold_in(key, t), so ten updates and ten more equal twenty.
Collections have keys of their own: `exploration.collector`.
"""

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from zsrl_jax.devices import mesh


class Stream(enum.IntEnum):
    """The number that a seed's key is folded with for each use; results depend on these numbers."""

    ENCODER_INIT = 2
    ENCODER_UPDATES = 3
    POLICY_INIT = 6
    POLICY_UPDATES = 7
    FREEZE = 10  # the data that an encoder sees when it is frozen
    TASK_POOL = 11  # the data's task vectors that an agent keeps
    TASK_FIT = 12
    STUDY_PIECES = 20
    STUDY_UNIFORM = 21
    STUDY_SUBTRAJ = 22
    STUDY_BTD = 23
    ORACLE_TASK = 1000  # plus the task's index in its domain; no other stream is as high


def stream_keys(keys: Key[Array, " seed"], stream: int) -> Key[Array, " seed"]:
    """Return the keys of one stream, for every seed."""
    return jax.vmap(lambda key: jax.random.fold_in(key, int(stream)))(keys)


def update_keys(key: Key[Array, ""], step: Int[Array, ""]) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """Return the keys of one update: one for its batch, one for everything else."""
    key_batch, key_update = jax.random.split(jax.random.fold_in(key, step))
    return key_batch, key_update


class Fed(NamedTuple):
    """What was drawn ahead for a window of updates, and the data that is on the device."""

    first: Int[Array, ""]  # the update that drawn[0] is for
    drawn: Any  # [update, ...]
    rest: Any

    def at(self, step: Int[Array, ""]) -> "Fed":
        """Return what was drawn for one update."""
        index = step - self.first
        return self._replace(drawn=jax.tree.map(lambda x: x[index], self.drawn))


def make_loop(sample: Callable, update: Callable, length: int) -> Callable:
    """Make loop(state, key, data, start) -> (state, mean metrics) over `length` updates."""

    def loop(state, key, data, start):
        def body(state, step):
            key_batch, key_update = update_keys(key, step)
            batch = sample(key_batch, data.at(step) if isinstance(data, Fed) else data)
            return update(state, mesh.divide(batch), key_update, step)

        state, metrics = jax.lax.scan(body, state, start + jnp.arange(length))
        return state, jax.tree.map(jnp.mean, metrics)

    return loop
