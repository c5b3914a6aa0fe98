"""Run a function of one seed for many seeds; the seed axis is always axis 0.

    over_seeds(f, (0, None))(own, shared)[i] = f(own[i], shared)

Seed i among many draws the same keys, batches and tasks as seed i alone.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from zsrl_jax.devices import precision


def map_seeds(
    function: Callable[..., Any], in_axes: tuple[Any, ...], how: str = "auto"
) -> Callable[..., Any]:
    """Map a function of one seed over many: over axis 0 where `in_axes` is 0, shared where None.

    `vmap` batches the seeds, for accelerators. `map` runs them one after the other in one program,
    with the arithmetic of a single run: bit-equal, and faster on a CPU, where batched products are
    slower than single ones. `auto` picks by backend.
    """
    how = {"cpu": "map"}.get(precision.backend(), "vmap") if how == "auto" else how
    return jax.vmap(function, in_axes) if how == "vmap" else _one_by_one(function, in_axes)


def over_seeds(
    function: Callable[..., Any],
    in_axes: tuple[Any, ...],
    donate: tuple[int, ...] = (),
    how: str = "auto",
    products: str = precision.EXACT,
) -> Callable[..., Any]:
    """Compile a function of one seed for many; `products` says how exactly networks multiply."""
    many = map_seeds(precision.bind(function, products), in_axes, how)
    return jax.jit(many, donate_argnums=donate)


def _one_by_one(function: Callable[..., Any], in_axes: tuple[Any, ...]) -> Callable[..., Any]:
    def is_shared(axis: Any) -> bool:
        return axis is None

    def call(*args: Any) -> Any:
        def pick(axis: Any, tree: Any) -> Any:
            return None if is_shared(axis) else tree

        def merge(axis: Any, tree: Any, own: Any) -> Any:
            return tree if is_shared(axis) else own

        def body(own: Any) -> Any:
            return function(*jax.tree.map(merge, in_axes, args, own, is_leaf=is_shared))

        return jax.lax.map(body, jax.tree.map(pick, in_axes, args, is_leaf=is_shared))

    return call


def seed_keys(seed: int, num: int) -> Key[Array, " seed"]:
    """Return the keys of seeds seed, seed + 1, ...: each depends only on its own number."""
    return jnp.stack([jax.random.key(seed + i) for i in range(num)])


def take_seed(tree: Any, index: int) -> Any:
    """Return one seed's part of a tree."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def pick_seed(tree: Any, axes: Any, index: int) -> Any:
    """Return one seed's part of a tree; shared parts are unchanged. `axes` as in `over_seeds`."""

    def pick(axis: Any, part: Any) -> Any:
        return part if axis is None else take_seed(part, index)

    return jax.tree.map(pick, axes, tree, is_leaf=lambda axis: axis is None)
