"""Scan over updates, seeds side by side, jit: here and nowhere else.

Update t of a seed draws everything from fold_in(key, t), so ten updates and ten more are the same
as twenty, and seed i among many draws the same keys, batches and tasks as seed i alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Int, Key

from zsrl_jax import mesh as devices
from zsrl_jax import precision


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
            key_batch, key_update = jax.random.split(jax.random.fold_in(key, step))
            batch = sample(key_batch, data.at(step) if isinstance(data, Fed) else data)
            return update(state, devices.divide(batch), key_update, step)

        state, metrics = jax.lax.scan(body, state, start + jnp.arange(length))
        return state, jax.tree.map(jnp.mean, metrics)

    return loop


def over_seeds(
    function: Callable,
    in_axes: tuple,
    donate: tuple[int, ...] = (),
    how: str = "auto",
    mesh: Mesh | None = None,
    products: str = precision.EXACT,
) -> Callable:
    """Compile a function of one seed for many: axis 0 where `in_axes` says 0, shared where None.

    `vmap` batches the seeds, which is what an accelerator wants. `map` runs them one after the
    other in one program, each with the very arithmetic of a run alone: bit-equal, and on a CPU
    faster, because batched products are slower there than single ones. `auto` picks by backend.
    With a mesh each device does so with its share of the seeds. `products` is how exactly networks
    multiply (`precision`).
    """
    function = precision.bind(function, products)
    how = {"cpu": "map"}.get(jax.default_backend(), "vmap") if how == "auto" else how
    many = jax.vmap(function, in_axes) if how == "vmap" else _mapped(function, in_axes)
    if mesh is not None:
        return devices.spread(many, in_axes, donate, mesh)
    return jax.jit(many, donate_argnums=donate)


def _mapped(function: Callable, in_axes: tuple) -> Callable:
    def is_shared(axis):
        return axis is None

    def call(*args):
        def pick(axis, tree):
            return None if is_shared(axis) else tree

        def merge(axis, tree, own):
            return tree if is_shared(axis) else own

        def body(own):
            return function(*jax.tree.map(merge, in_axes, args, own, is_leaf=is_shared))

        return jax.lax.map(body, jax.tree.map(pick, in_axes, args, is_leaf=is_shared))

    return call


def seed_keys(seed: int, num: int) -> Key[Array, " seed"]:
    """Return the keys of seeds seed, seed + 1, ...: each depends on its own number alone."""
    return jnp.stack([jax.random.key(seed + i) for i in range(num)])


def stage_keys(keys: Key[Array, " seed"], stage: int) -> Key[Array, " seed"]:
    """Return the keys of one stage of every seed."""
    return jax.vmap(lambda key: jax.random.fold_in(key, stage))(keys)


def take_seed(tree: Any, index: int) -> Any:
    """Return one seed's part of a tree."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def pick_seed(tree: Any, axes: Any, index: int) -> Any:
    """Return one seed's part of a tree, shared parts as they are: `axes` as in `over_seeds`."""

    def pick(axis, part):
        return part if axis is None else take_seed(part, index)

    return jax.tree.map(pick, axes, tree, is_leaf=lambda axis: axis is None)
