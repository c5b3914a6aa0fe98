"""The prompt gap: what a policy could do for a task, against what it does when it is prompted.

    prompt gap = best return over task vectors of the data / return of the prompt

Some task vectors are rolled out once each; for each test task the best of them is rolled out again,
from the starts that the prompt is scored on, so that luck in the first rollout does not count. The
simulator is used, so this measures prompts and never answers one.

Beside it stands what the rollout of a prompt earned in its own reward, sum_t gamma^t (phi - m).z,
and what the critic promised for it, Q(s_0, pi(s_0, z), z).
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from zsrl_jax import acting, td3
from zsrl_jax.agent import Agent
from zsrl_jax.data import Dataset
from zsrl_jax.data.summary import best_pieces
from zsrl_jax.envs import DOMAINS, Simulator, relabel
from zsrl_jax.errors import DataError
from zsrl_jax.evaluation import start_seeds
from zsrl_jax.runs import checkpoint, step_saves
from zsrl_jax.seeds import take_seed

TRIED = 128  # task vectors that are rolled out


class Gap(NamedTuple):
    """What prompts got and what could be had, for each test task; of one training seed."""

    tasks: tuple[str, ...]
    got: Float[np.ndarray, " task"]
    best: Float[np.ndarray, " task"]
    random: Float[np.ndarray, " task"]
    data_best: Float[np.ndarray, " task"] | None  # of the data: 1000 x its best steps in a row
    cosine: Float[np.ndarray, "task task"]  # between the prompts
    earned: Float[np.ndarray, " task"]  # of the prompt's own reward
    promised: Float[np.ndarray, " task"] | None  # by the critic

    @property
    def ratio(self) -> float:
        """Return the prompt gap: mean of the best over mean of what was got."""
        return float(self.best.mean() / self.got.mean())

    def __str__(self) -> str:
        """Draw the table: one row per task, then the means and the cosines."""
        return "\n".join([*self._rows(), "", *self._cosines()])

    def _rows(self) -> list[str]:
        head = f"{'of 1000':<16}{'random':>8}{'prompt':>8}{'best z':>8}{'gap':>7}"
        head += f"{'data best':>11}{'earned':>9}{'promised':>10}"
        rows = [head, "-" * len(head)]
        for i, task in enumerate(self.tasks):
            row = f"{task:<16}{self.random[i]:>8.0f}{self.got[i]:>8.0f}{self.best[i]:>8.0f}"
            row += f"{self.best[i] / max(self.got[i], 1e-9):>7.2f}"
            row += f"{'-':>11}" if self.data_best is None else f"{self.data_best[i]:>11.0f}"
            row += f"{self.earned[i]:>9.0f}"
            row += f"{'-':>10}" if self.promised is None else f"{self.promised[i]:>10.0f}"
            rows.append(row)
        mean = f"{'mean':<16}{self.random.mean():>8.0f}{self.got.mean():>8.0f}"
        mean += f"{self.best.mean():>8.0f}{self.ratio:>7.2f}"
        if self.data_best is not None:
            mean += f"{self.data_best.mean():>11.0f}"
        return [*rows, "-" * len(head), mean]

    def _cosines(self) -> list[str]:
        width = max(len(task) for task in self.tasks) + 2
        head = " " * width + "".join(f"{task:>{width}}" for task in self.tasks)
        rows = [
            f"{task:<{width}}" + "".join(f"{value:>{width}.2f}" for value in row)
            for task, row in zip(self.tasks, self.cosine, strict=True)
        ]
        return ["cosines between the task vectors of the prompts", head, *rows]


def measure(
    agent: Agent,
    dataset: Dataset | None = None,
    member: int = 0,
    tried: int = TRIED,
    episodes: int = 10,
    seed: int = 1,
) -> Gap:
    """Measure the prompt gap of one training seed (`member`) of an agent."""
    if agent.domain not in DOMAINS:
        raise DataError("the prompt gap needs a simulator: the run's data is of no known domain")
    if agent.params.tasks is None:
        raise DataError("the agent keeps no task vectors of its data: its encoder acts by itself")
    names = agent.task_names
    asked = np.stack([agent.infer(task)[member] for task in names])
    pool = np.asarray(agent.params.tasks)[member]
    some = pool[np.random.default_rng(seed).permutation(len(pool))[:tried]]
    starts = start_seeds(seed, episodes)
    first = _roll(agent, member, some, np.resize(starts, len(some)))
    chosen = np.stack([some[np.argmax(_returns(agent, first.physics, task))] for task in names])
    played_z = np.repeat(np.concatenate([asked, chosen]), episodes, axis=0)
    found = _roll(agent, member, played_z, np.tile(starts, 2 * len(names)))
    by_task = np.stack([_returns(agent, found.physics, task) for task in names])
    by_task = by_task.reshape(len(names), 2, len(names), episodes).mean(axis=-1)
    got, best = (np.array([by_task[i, kind, i] for i in range(len(names))]) for kind in (0, 1))
    played = _roll(agent, member, None, starts)
    random = np.array([_returns(agent, played.physics, task).mean() for task in names])
    unit = asked / np.linalg.norm(asked, axis=1, keepdims=True)
    mine = slice(0, len(names) * episodes)
    earned = _own_return(agent, member, found.obs[:, mine], played_z[mine])
    promised = _promise(agent, member, found.obs[0, mine], played_z[mine])
    return Gap(
        names, got, np.maximum(best, got), random,
        None if dataset is None else best_pieces(dataset, names), unit @ unit.T,
        earned.reshape(len(names), episodes).mean(axis=1),
        None if promised is None else promised.reshape(len(names), episodes).mean(axis=1),
    )  # fmt: skip


class _Rolled(NamedTuple):
    obs: Float[np.ndarray, "step episode obs"]  # the start, then what each action reached
    physics: Float[np.ndarray, "step episode physics"]  # what each action reached


def _roll(agent: Agent, member: int, z: np.ndarray | None, starts: np.ndarray) -> _Rolled:
    """Roll out one episode per task vector, or per start of the random policy."""
    domain = DOMAINS[str(agent.domain)]
    simulator, act = Simulator(domain, len(starts)), _policy(agent, member, z, len(starts))
    obs, physics = [simulator.reset(starts)], []
    for _ in range(domain.episode_length):
        obs.append(simulator.step(act(obs[-1])))
        physics.append(simulator.physics())
    return _Rolled(np.stack(obs), np.stack(physics))


def _policy(
    agent: Agent, member: int, z: np.ndarray | None, number: int
) -> Callable[[np.ndarray], np.ndarray]:
    if z is None:
        noise, shape = np.random.default_rng(0), (number, agent.spec.action_dim)
        return lambda obs: noise.uniform(-1, 1, shape)
    tasks = np.broadcast_to(z[None], (agent.num_seeds, *z.shape))

    def act(obs: np.ndarray) -> np.ndarray:
        return agent.act(np.broadcast_to(obs[None], (agent.num_seeds, *obs.shape)), tasks)[member]

    return act


def _returns(agent: Agent, physics: np.ndarray, task: str) -> np.ndarray:
    return np.asarray(relabel(str(agent.domain), task, physics).sum(axis=0))


def _own_return(agent: Agent, member: int, seen: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return sum_t gamma^t (phi(s_{t+1}) - m).z of each rollout."""
    mean = agent.features(agent.prompt_states)[member].mean(axis=0)
    total, weight = np.zeros(len(z)), 1.0
    for before, obs in itertools.pairwise(seen):
        phi = agent.features(agent.seen(before, obs))[member]
        total += weight * np.sum((phi - mean) * z, axis=1)
        weight *= agent.config.policy.discount
    return total


def _promise(agent: Agent, member: int, obs: np.ndarray, z: np.ndarray) -> np.ndarray | None:
    """Return Q(s_0, pi(s_0, z), z) by the critic in the run's last save; None without one."""
    critic = _critic(agent)
    if critic is None:
        return None
    parts = agent.config.policy, agent.spec, agent.config.encoder.dim
    scaled = agent.params.normalizer(jnp.asarray(obs, jnp.float32))
    acting_params = take_seed(agent.params.actor, member)
    action = jnp.clip(acting.make(*parts)(acting_params, scaled, jnp.asarray(z)), -1, 1)
    value = acting.make_value(*parts, pessimism=0.0)
    return np.asarray(value(take_seed(critic, member), scaled, action, jnp.asarray(z)))


def _critic(agent: Agent) -> Any:
    """Return the critics in the run's last save; None without one."""
    if agent.workdir is None:
        return None
    save = step_saves.newest(Path(agent.workdir) / "policy")
    if save.folder is None:
        return None
    config, dim = agent.config.policy, agent.config.encoder.dim
    policy = td3.make(config, agent.spec, dim, lambda key, data: None)
    keys = jax.random.split(jax.random.key(0), agent.num_seeds)
    like = jax.eval_shape(jax.vmap(policy.init), keys)
    return checkpoint.restore(save.folder, like).params["critic"]
