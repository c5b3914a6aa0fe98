"""A seed that turns NaN or infinite is found at the end of a chunk, and keeps its state before it.

    guarded(state, key, data, start, alive) -> (state', metrics, good)
    state' = chunk(state) where the seed is alive and all of it is finite, else state

So the other seeds are not affected, and what is saved is always the last good state. Which update
and which quantity failed is found afterwards: the chunk is run again, one update at a time.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from zsrl_jax.training.loop import make_loop


def finite(tree: Any) -> jax.Array:
    """Return whether every number of a tree is finite."""
    parts = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree) if _is_float(x)]
    return jnp.all(jnp.stack(parts)) if parts else jnp.asarray(True)


def losses(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics that must be finite; a diagnostic may be NaN."""
    return {name: value for name, value in metrics.items() if "loss" in name}


def _is_float(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def guard(loop: Callable) -> Callable:
    """Make a loop of one seed that keeps the old state if the new one is not finite."""

    def guarded(state, key, data, start, alive):
        new, metrics = loop(state, key, data, start)
        good = alive & finite((new, losses(metrics)))
        state = jax.tree.map(lambda old, new: jnp.where(good, new, old), state, new)
        nothing = jax.tree.map(lambda x: jnp.where(alive, x, jnp.nan), metrics)
        return state, nothing, good

    return guarded


def locate(learner: Any, state: Any, key: Any, data: Any, steps: range) -> tuple[int, str]:
    """Run a chunk of one seed again by single updates; return the first bad update and quantity."""
    one = jax.jit(make_loop(learner.sample, learner.update, 1))
    for step in steps:
        state, metrics = one(state, key, data, jnp.asarray(step))
        bad = not_finite(state, metrics)
        if bad:
            return step + 1, bad
    return steps.stop, "a quantity (finite when run again)"


def not_finite(state: Any, metrics: dict[str, Any]) -> str:
    """Name what is not finite: losses, then gradients (by Adam's moments), then parameters."""
    names = [name for name, value in losses(metrics).items() if not np.isfinite(value).all()]
    for kind, tree in (("gradient", state.opt_state), ("parameter", state.params),
                       ("target parameter", state.target_params)):  # fmt: skip
        names += [f"{kind} of {part}" for part, sub in tree.items() if not finite(sub)]
    return ", ".join(names)


def nan_seeds(tree: Any) -> dict[int, str]:
    """Return the seeds of a fitted tree that hold a NaN, with the name of the first such leaf.

    Infinities are allowed here: a mixture may hold log 0.
    """
    found: dict[int, str] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if _is_float(leaf):
            bad = np.isnan(np.asarray(leaf)).reshape(len(leaf), -1).any(axis=1)
            for place in np.flatnonzero(bad).tolist():
                found.setdefault(place, jax.tree_util.keystr(path))
    return found
