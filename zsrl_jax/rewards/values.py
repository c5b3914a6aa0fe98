"""The values of a reward text: its tree, applied to columns of float64.

linear(x, low, margin, value)   1 if x >= low, in a line down to `value` at low - margin, >= 0
gaussian(x, low, margin)        1 if x >= low, as a bell down to 0.1 at low - margin
"""

from collections.abc import Callable, Mapping

import numpy as np

from zsrl_jax.errors import DataError
from zsrl_jax.rewards.language import Tree

Column = np.ndarray


def _linear(x: Column, low: Column, margin: Column, value: Column) -> Column:
    return np.clip(1 - (1 - value) * (low - x) / margin, 0.0, 1.0)


def _gaussian(x: Column, low: Column, margin: Column) -> Column:
    return np.power(0.1, (np.maximum(low - x, 0.0) / margin) ** 2)


def _where(condition: Column, yes: Column, no: Column) -> Column:
    return np.where(condition != 0, yes, no)


CALLS: dict[str, Callable[..., Column]] = {
    "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "sign": np.sign, "min": np.minimum, "max": np.maximum, "clip": np.clip,
    "where": _where, "gaussian": _gaussian, "linear": _linear,
}  # fmt: skip
SIGNS: dict[str, Callable[..., Column]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal, "negative": np.negative,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


def evaluate(tree: Tree, columns: Mapping[str, Column], count: int) -> Column:
    """Return the value [count] of a tree; refuse one that is not finite in every state."""
    with np.errstate(all="ignore"):
        found = np.broadcast_to(_value(tree, columns), (count,)).astype(np.float64)
    if bad := int((~np.isfinite(found)).sum()):
        raise DataError(
            f"the reward is not finite in {bad} of {count} states: expected a number in each "
            "(no division by 0, no root or log of a negative number, no huge power)"
        )
    return found


def _value(tree: Tree, columns: Mapping[str, Column]) -> Column:
    kind, *parts = tree
    if kind == "number":
        return np.asarray(parts[0], np.float64)
    if kind == "name":
        return np.asarray(columns[parts[0]], np.float64)
    if kind == "call":
        return CALLS[parts[0]](*(_value(part, columns) for part in parts[1]))
    return np.asarray(SIGNS[kind](*(_value(part, columns) for part in parts)), np.float64)
