"""The oracle, a reference: the same TD3 on a task's true reward, without z, one policy per task.

    target   y = r(s') + gamma min_k Qbar_k(s', a'),     r = the task's reward of the state reached

Tasks x seeds are trained in parallel in one program, seed by seed. Each draws its keys from its
seed and from the task's index in its domain, so a task trained among others equals that task
trained alone. An oracle has the interface of an agent, so it is scored and filmed like one: its z
is a row of the identity, which picks the policy of a task it was trained on.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from ml_collections import ConfigDict

from zsrl_jax import acting, td3
from zsrl_jax.agent import Prompt, align
from zsrl_jax.data import Dataset, Normalizer
from zsrl_jax.data.sampling import draw_ahead
from zsrl_jax.envs import DOMAINS, relabel
from zsrl_jax.errors import DataError, TaskError, unknown
from zsrl_jax.seeds import over_seeds
from zsrl_jax.settings.names import cell_name
from zsrl_jax.types import Policy, Spec, Store


class OracleData(NamedTuple):
    """What an oracle reads: the data, every task's reward, and which task is its own."""

    store: Store
    reward: Float[Array, "task episode step"]  # of the state after action t
    task: Int[Array, ""]


def rewards(domain: str, tasks: tuple[str, ...], dataset: Dataset) -> Float[np.ndarray, "t e s"]:
    """Compute the rewards of every transition, those of the states reached."""
    assert dataset.physics is not None
    reached = dataset.physics[:, 1:]
    return np.stack([relabel(domain, task, reached).astype(np.float32) for task in tasks])


def mean_reward(
    reward: Float[Array, "task episode step"], length: Int[np.ndarray, " episode"]
) -> Float[Array, "task 1 1"]:
    """Return each task's mean reward over the data: taken out, no optimal policy changes."""
    inside = (jnp.arange(reward.shape[2])[None] < jnp.asarray(length)[:, None])[None]
    return jnp.mean(reward, axis=(1, 2), keepdims=True, where=inside)


def task_places(domain: str, tasks: tuple[str, ...]) -> list[int]:
    """Return each task's index in its domain, which decides its keys."""
    return [list(DOMAINS[domain].tasks).index(task) for task in tasks]


def make_policy(config: ConfigDict, spec: Spec) -> Policy:
    """Bind a policy's config to TD3 on OracleData; the batch has as many rows as an agent's."""
    num = td3.batch_rows(config)

    def sample(key: Key[Array, ""], data: OracleData) -> td3.PolicyBatch:
        drawn = draw_ahead(key, data.store, num, config.horizon, config.discount)
        reward = data.reward[data.task, drawn.start.episode[:, None], drawn.row - 1]
        reward = jnp.sum(drawn.weight * reward, axis=1)
        return td3.PolicyBatch(drawn.start, jnp.zeros((num, 0)), reward)

    return td3.make(config, spec, 0, sample)


class OracleParams(NamedTuple):
    """What training leaves behind."""

    actor: Any  # axes 0 and 1 are seed and task
    normalizer: Normalizer


@dataclasses.dataclass(eq=False)
class Oracle:
    """Policies trained on the true rewards of tasks, with the interface of an agent."""

    config: ConfigDict
    spec: Spec
    domain: str
    params: OracleParams
    workdir: Path | None = None

    def __post_init__(self) -> None:
        """Bind the policy once, so that it is compiled once."""
        act = acting.make(self.config.policy, self.spec, 0)
        self._act = over_seeds(_choose(act), (0, None, 0, 0))

    @property
    def task_names(self) -> tuple[str, ...]:
        """Name the tasks it was trained on."""
        return tuple(self.config.oracle.tasks)

    @property
    def num_seeds(self) -> int:
        """Count the seeds of the run."""
        return int(jax.tree.leaves(self.params.actor)[0].shape[0])

    @property
    def z_dim(self) -> int:
        """Return the width of z: one entry per task."""
        return len(self.task_names)

    def __repr__(self) -> str:
        """Return the oracle in one line."""
        return (
            f"Oracle({cell_name(self.config)}, scale {self.config.scale}, {self.num_seeds} "
            f"seed(s), tasks {', '.join(self.task_names)})"
        )

    def prompt(self, reward: Any = None, *, goal: Any = None, demonstration: Any = None) -> Prompt:
        """Return the z that picks a task's policy; any other prompt is refused."""
        if not isinstance(reward, str) or goal is not None or demonstration is not None:
            raise DataError("an oracle has no features: expected the name of one of its tasks")
        if reward not in self.task_names:
            raise TaskError(unknown("task of this oracle", reward, self.task_names))
        row = np.eye(self.z_dim, dtype=np.float32)[self.task_names.index(reward)]
        missing = np.full(self.num_seeds, np.nan)
        return Prompt(np.tile(row, (self.num_seeds, 1)), missing, missing, missing)

    def infer(self, reward: Any = None, **prompts: Any) -> Float[np.ndarray, "seed task"]:
        """Return the z of `prompt`."""
        return self.prompt(reward, **prompts).z

    def act(self, obs: Any, z: Any) -> Float[np.ndarray, "seed *batch action"]:
        """Return actions [seed, ..., A] of the policies that z picks."""
        obs, z = align(self, obs, z)
        return np.asarray(self._act(self.params.actor, self.params.normalizer, obs, z))


def _choose(own: Callable[..., Array]) -> Callable[..., Array]:
    """Make act(actors[task], normalizer, obs, z): every task's action, then the one z asks for."""

    def act(actor: Any, normalizer: Normalizer, obs: Array, z: Array) -> Array:
        scaled, nothing = normalizer(obs), jnp.zeros((*obs.shape[:-1], 0))
        action = jax.vmap(own, (0, None, None))(actor, scaled, nothing)
        place = jnp.argmax(z, axis=-1)[None, ..., None]
        return jnp.clip(jnp.take_along_axis(action, place, axis=0)[0], -1.0, 1.0)

    return act
