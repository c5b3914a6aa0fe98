"""Agents that ship with the package: `load("cheetah")` works before any training.

One file of arrays per agent (float16 where it is large) and one card in JSON: config, data,
versions, the command that made it, and the scores of all seeds of its run. At most 1.5 MB each.

To fit, an agent keeps one seed, a part of the prompt states, and of the task vectors those that
prompts use most: `choose_tasks`. The card says how near its answers are to the whole agent's.
"""

import functools
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from zsrl_jax.agent import Agent, AgentParams
from zsrl_jax.data import Normalizer
from zsrl_jax.errors import DataError
from zsrl_jax.files import atomic
from zsrl_jax.rewards import quantity_columns
from zsrl_jax.settings import fields
from zsrl_jax.types import Spec

FOLDER = Path(__file__).parents[1] / "agents"
FORMAT = 1
LIMIT = 1_500_000  # bytes of an agent's file of arrays
SMALL = 4096  # arrays of fewer numbers keep float32
DIRECTIONS = 4000  # between task vectors, tried to see which of them prompts use
REWARDS = 1000  # random rewards, tried for the same


class TooLargeError(DataError):
    """A packed agent has more bytes than an agent that ships may have."""


def names() -> tuple[str, ...]:
    """Return the names of the agents that ship."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.npz")))


def read_card(name: str) -> dict[str, Any]:
    """Return an agent's card."""
    return dict(json.loads((FOLDER / f"{name}.json").read_text()))


def read(name: str) -> Agent:
    """Load an agent that ships."""
    card, arrays = read_card(name), _arrays(name)
    if card.get("format") != FORMAT:
        raise DataError(f"the agent '{name}' has format {card.get('format')}: expected {FORMAT}")
    tree: dict[str, Any] = {}
    for path, array in arrays.items():
        *above, last = path.split("/")
        if above[:1] != ["clip"]:
            place = functools.reduce(lambda at, key: at.setdefault(key, {}), above, tree)
            exact = np.float64 if last == "prompt_physics" else np.float32
            place[last] = array.astype(exact)
    tree["normalizer"] = Normalizer(**tree["normalizer"])
    given: dict[str, Any] = {field: tree.get(field) for field in AgentParams._fields}
    params = AgentParams(**given)
    config = fields.with_defaults(card["config"])
    return Agent(config, Spec(*card["spec"]), card["domain"], params, shipped=name)


def read_clip_arrays(name: str) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return the clips of the data that an agent ships: label, observations, physics."""
    arrays, labels = _arrays(name), read_card(name)["clips"]
    return [(label, *(arrays[f"clip/{i}/{part}"].astype(np.float64) for part in ("obs", "physics")))
            for i, label in enumerate(labels)]  # fmt: skip


def _arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as found:
        return dict(found)


def reduce(agent: Agent, member: int, num_states: int, num_tasks: int) -> Agent:
    """Return an agent of one seed, fewer prompt states and task vectors, rounded as it ships."""
    params = agent.params
    rows = np.linspace(0, len(params.prompt_obs) - 1, min(num_states, len(params.prompt_obs)))
    rows = rows.astype(int)
    kept = choose_tasks(agent, member, num_tasks)

    def first(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[member : member + 1], tree)

    physics, before = params.prompt_physics, params.prompt_before
    small = AgentParams(
        encoder=first(params.encoder),
        actor=first(params.actor),
        tasks=None if params.tasks is None else first(params.tasks)[:, kept],
        normalizer=jax.tree.map(np.asarray, params.normalizer),
        prompt_obs=np.asarray(params.prompt_obs)[rows],
        prompt_before=None if before is None else np.asarray(before)[rows],
        prompt_physics=None if physics is None else np.asarray(physics)[rows],
        centre=None if params.centre is None else first(params.centre),
        task_size=None if params.task_size is None else first(params.task_size)[:, kept],
    )
    rounded = jax.tree.map(lambda x: _small(x).astype(x.dtype), small)
    return Agent(agent.config, agent.spec, agent.domain, rounded)


def choose_tasks(agent: Agent, member: int, number: int) -> np.ndarray:
    """Return indices of the task vectors that are most often among the best of some prompt."""
    if agent.params.tasks is None:
        return np.arange(0)
    tasks = np.asarray(agent.params.tasks)[member]
    if number >= len(tasks):
        return np.arange(len(tasks))
    sizes = agent.params.task_size
    size = np.ones(len(tasks)) if sizes is None else np.asarray(sizes)[member]
    draw = np.random.default_rng(0)
    pairs = draw.integers(len(tasks), size=(2, DIRECTIONS))
    between = tasks[pairs[0]] + draw.normal(size=(DIRECTIONS, 1)) * tasks[pairs[1]]
    asked = _prompted(agent, member, draw)
    top = max(agent.config.infer.behaviours, agent.config.infer.nearest, 1)
    used = np.zeros(len(tasks))
    for directions in (between, asked):
        for z in directions:
            used[np.argpartition(-(tasks @ z) * size, top)[:top]] += 1 / len(directions)
    return np.sort(np.argsort(-used, kind="stable")[:number])


def _prompted(agent: Agent, member: int, draw: np.random.Generator) -> np.ndarray:
    """Return z of rewards as people write them: quantities, their mixtures, and thresholds."""
    physics = agent.params.prompt_physics
    if physics is None or agent.domain is None:
        return np.zeros((0, agent.z_dim))
    columns = np.stack(list(quantity_columns(agent.domain, physics).values()), axis=1)
    columns = (columns - columns.mean(axis=0)) / np.maximum(columns.std(axis=0), 1e-6)
    weights = np.concatenate([np.eye(columns.shape[1])] * 4)
    mixed = draw.normal(size=(REWARDS, columns.shape[1]))
    mixed *= draw.uniform(size=mixed.shape) < 3 / columns.shape[1]  # some three of them
    rewards = columns @ np.concatenate([weights, mixed]).T
    half = rewards.shape[1] // 2
    rewards[:, half:] *= columns[:, [0]] > 0
    phi = agent.features(agent.prompt_states)[member].astype(np.float64)
    phi = phi - phi.mean(axis=0)
    covariance = phi.T @ phi / len(phi)
    ridge = 1e-4 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    z = np.linalg.solve(covariance + ridge, phi.T @ (rewards - rewards.mean(axis=0))).T
    return np.concatenate([z, -z])


def _small(array: np.ndarray) -> np.ndarray:
    """Return large arrays as float16, if no number is too large for it."""
    array = np.asarray(array)
    fits = array.size >= SMALL and np.abs(array).max() < np.finfo(np.float16).max
    return array.astype(np.float16 if fits else np.float32)


def write(
    folder: Path,
    name: str,
    agent: Agent,
    clips: Sequence[tuple[str, np.ndarray, np.ndarray]],
    more: Mapping[str, Any],
) -> tuple[Path, int]:
    """Write a reduced agent and its card, which has `more`; return the file and its size."""
    arrays: dict[str, np.ndarray] = {}
    for field, value in agent.params._asdict().items():
        value = value._asdict() if isinstance(value, Normalizer) else value
        for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
            arrays["/".join([field, *(str(key.key) for key in path)])] = _small(leaf)
    for i, (_, obs, physics) in enumerate(clips):
        arrays |= {f"clip/{i}/obs": obs.astype(np.float16)}
        arrays |= {f"clip/{i}/physics": physics.astype(np.float16)}
    card = {
        "format": FORMAT,
        "domain": agent.domain,
        "spec": list(agent.spec),
        "clips": [label for label, *_ in clips],
        "prompt_states": len(agent.params.prompt_obs),
        "task_vectors": 0 if agent.params.tasks is None else agent.params.tasks.shape[1],
        **more,
    }
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    if (size := len(content.getvalue())) > LIMIT:
        raise TooLargeError(
            f"the agent '{name}' has {size:,} bytes: expected at most {LIMIT:,}; keep fewer states "
            "(--states) or task vectors (--task_vectors)"
        )
    file = folder / f"{name}.npz"
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(file, content.getvalue())
    text = json.dumps(card, indent=1, allow_nan=False) + "\n"
    atomic.write_text(folder / f"{name}.json", text)
    return file, size
