"""Scan over updates, vmap over seeds, jit: here and nowhere else.

Update t of a seed draws everything from fold_in(key, t), so ten updates and ten more are the same
as twenty, and seed i among many is seed i alone. One seed runs as the plain program, because a
vmap over a single seed rounds differently from it.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key


def make_loop(sample: Callable, update: Callable, length: int) -> Callable:
    """Make loop(state, key, data, start) -> (state, mean metrics) over `length` updates."""

    def loop(state, key, data, start):
        def body(state, step):
            key_batch, key_update = jax.random.split(jax.random.fold_in(key, step))
            batch = sample(key_batch, data)
            return update(state, batch, key_update, step)

        state, metrics = jax.lax.scan(body, state, start + jnp.arange(length))
        return state, jax.tree.map(jnp.mean, metrics)

    return loop


def over_seeds(function: Callable, in_axes: tuple, donate: tuple[int, ...] = ()) -> Callable:
    """Compile a function of one seed for many: axis 0 where `in_axes` says 0, shared where None."""

    def squeeze(axis, tree):
        return tree if axis is None else jax.tree.map(lambda leaf: leaf[0], tree)

    def single(*args):
        args = jax.tree.map(squeeze, in_axes, args, is_leaf=lambda axis: axis is None)
        return jax.tree.map(lambda leaf: leaf[None], function(*args))

    many = jax.jit(jax.vmap(function, in_axes), donate_argnums=donate)
    one = jax.jit(single, donate_argnums=donate)

    def call(*args):
        return (one if count_seeds(in_axes, args) == 1 else many)(*args)

    return call


def count_seeds(in_axes: tuple, args: tuple) -> int:
    """Return the length of the seed axis."""
    sizes: list[int] = []

    def note(axis, tree):
        if axis is not None:
            sizes.extend(leaf.shape[0] for leaf in jax.tree.leaves(tree))

    jax.tree.map(note, in_axes, args, is_leaf=lambda axis: axis is None)
    return sizes[0]


def seed_keys(seed: int, num: int) -> Key[Array, " seed"]:
    """Return the keys of seeds seed, seed + 1, ...: each depends on its own number alone."""
    return jnp.stack([jax.random.key(seed + i) for i in range(num)])


def stage_keys(keys: Key[Array, " seed"], stage: int) -> Key[Array, " seed"]:
    """Return the keys of one stage of every seed."""
    return jax.vmap(lambda key: jax.random.fold_in(key, stage))(keys)


def take_seed(tree: Any, index: int) -> Any:
    """Return one seed's part of a tree."""
    return jax.tree.map(lambda leaf: leaf[index], tree)
