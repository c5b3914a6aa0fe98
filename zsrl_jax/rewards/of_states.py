"""A reward text of a domain's states: names of its quantities, and text -> rewards of physics.

A quantity that is one number per state has its own name: `speed`. A vector has one name per entry:
`angular_momentum_y` if it has three (x, y, z), else `joint_angle_0`, `joint_angle_1`, ...
"""

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from zsrl_jax.envs import Domain, find_domain, quantities, relabel
from zsrl_jax.errors import TaskError, unknown
from zsrl_jax.rewards.language import FUNCTIONS, WORDS, parse
from zsrl_jax.rewards.values import evaluate

AXES = ("x", "y", "z")
WORD = r"\s*[A-Za-z_][A-Za-z_0-9]*\s*"


def quantity_columns(domain: str | Domain, physics: Any) -> dict[str, np.ndarray]:
    """Return every quantity of states [n, P] by its name in reward texts, float64 [n]."""
    return _by_name(quantities(domain, np.asarray(physics, np.float64)))


def _by_name(found: Any) -> dict[str, np.ndarray]:
    columns: dict[str, np.ndarray] = {}
    for name, value in found._asdict().items():
        value = np.asarray(value, np.float64)
        if value.ndim == 1:
            columns[name] = value
            continue
        size = value.shape[-1]
        ends = AXES if size == len(AXES) else tuple(str(i) for i in range(size))
        columns |= {f"{name}_{end}": value[..., i] for i, end in enumerate(ends)}
    return {name: x for name, x in columns.items() if name not in (*FUNCTIONS, *WORDS)}


def quantity_names(domain: str | Domain) -> tuple[str, ...]:
    """Return the names that reward texts of a domain may use."""
    found = find_domain(domain)
    return _names(found.quantities, found.model, found.physics_dim)


@functools.cache
def _names(function: Callable[..., Any], model: Callable[[], Any], width: int) -> tuple[str, ...]:
    """Return the names of one state: the model's default."""
    state = np.zeros((1, width))
    state[0, : model().nq] = model().qpos0
    return tuple(_by_name(function(state)))


def reward_function(domain: str | Domain, text: str) -> Callable[[Any], np.ndarray]:
    """Return a reward text as a function of physics states [n, P] -> [n]; refuse a wrong one now.

    The name of a task of the domain stands for the task.
    """
    found = find_domain(domain)
    if text.strip() in found.tasks:
        task = text.strip()
        return lambda physics: np.asarray(relabel(domain, task, physics), np.float64)
    names = quantity_names(domain)
    if re.fullmatch(WORD, text) and text.strip() not in names:
        told = unknown(f"{found.name} task", text.strip(), found.tasks)
        raise TaskError(
            f"{told}; or a reward text, such as '2*{names[0]}', over {', '.join(names)}"
        )
    tree = parse(text, names)

    def reward(physics: Any) -> np.ndarray:
        return evaluate(tree, quantity_columns(domain, physics), len(physics))

    return reward
