"""Scores: policies x tasks x episodes in one batch of simulations -> returns[seed, task, episode].

Episode e starts from the same state for every seed and task, so differences between seeds are
differences between policies. The random policy (uniform actions) plays the same episodes.
"""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from zsrl_jax.agent import Agent, Prompt, load
from zsrl_jax.envs import DOMAINS, Simulator, relabel
from zsrl_jax.errors import DataError, TaskError, unknown

CHUNK = 50  # steps whose rewards are computed together


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """Returns of an agent and of the random policy; prints as a table."""

    domain: str
    tasks: tuple[str, ...]
    returns: Float[np.ndarray, "seed task episode"]
    random: Float[np.ndarray, "task episode"]
    r2: Float[np.ndarray, "seed task"]  # of each task's reward regression
    cosine: Float[np.ndarray, "seed task"]  # of each z with the nearest task of the data
    blown: tuple[str, ...] = ()  # episodes whose simulation diverged

    def __str__(self) -> str:
        """Draw the table: a row a task, then the mean."""
        seeds, _, episodes = self.returns.shape
        head = f"{self.domain:<16}{'score':>8}{'± seeds':>10}{'± episodes':>12}{'random':>9}"
        head += f"{'± episodes':>12}{'R²':>7}"
        rows = [head, "-" * len(head)]
        for i, task in enumerate(self.tasks):
            rows.append(_row(task, self.returns[:, i], self.random[i], self.r2[:, i].mean()))
        rows.append("-" * len(head))
        rows.append(_row("mean", self.returns.mean(axis=1), self.random.mean(axis=0), None))
        rows.append(f"{seeds} seed(s) x {episodes} episodes; R² of the reward regression")
        rows += [f"diverged: {place}" for place in self.blown]
        return "\n".join(rows)


def _row(name: str, returns: np.ndarray, random: np.ndarray, r2: float | None) -> str:
    over_seeds = f"{returns.mean(axis=1).std(ddof=1):.1f}" if len(returns) > 1 else "-"
    over_episodes = returns.std(axis=1).mean()
    row = f"{name:<16}{returns.mean():>8.1f}{over_seeds:>10}{over_episodes:>12.1f}"
    row += f"{random.mean():>9.1f}{random.std():>12.1f}"
    return row + (f"{r2:>7.2f}" if r2 is not None else "")


def evaluate(
    agent: Agent | str | os.PathLike,
    tasks: Sequence[str] | None = None,
    episodes: int = 10,
    seed: int = 0,
    progress: bool = True,
) -> Scores:
    """Score an agent (or the run in a folder) on tasks it was never trained for."""
    agent = agent if isinstance(agent, Agent) else load(agent)
    if agent.domain not in DOMAINS:
        raise TaskError(unknown("domain", str(agent.domain), DOMAINS))
    if episodes < 1:
        raise DataError(f"episodes is {episodes}: expected at least 1")
    known = DOMAINS[agent.domain].tasks
    tasks = tuple(known) if tasks is None else (tasks,) if isinstance(tasks, str) else tuple(tasks)
    for task in tasks:
        if task not in known:
            raise TaskError(unknown(f"{agent.domain} task", task, known))
    prompts = [agent.prompt(task) for task in tasks]
    returns, random, blown = _rollout(agent, tasks, prompts, episodes, seed, progress)
    r2, cosine = (
        np.stack([getattr(p, name) for p in prompts], axis=1) for name in ("r2", "cosine")
    )
    return Scores(agent.domain, tasks, returns, random, r2, cosine, blown)


def _rollout(
    agent: Agent,
    tasks: tuple[str, ...],
    prompts: list[Prompt],
    episodes: int,
    seed: int,
    progress: bool,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Play all seeds x tasks x episodes and the random policy's episodes, in step."""
    assert agent.domain is not None
    domain = DOMAINS[agent.domain]
    shape = (agent.num_seeds, len(tasks), episodes)
    num = int(np.prod(shape))
    simulator = Simulator(domain.name, num + episodes)
    z = np.repeat(np.stack([p.z for p in prompts], axis=1)[:, :, None], episodes, axis=2)
    starts = seed * 1_000_003 + np.arange(episodes)
    obs = simulator.reset(np.tile(starts, agent.num_seeds * len(tasks) + 1))
    noise = np.random.default_rng(seed)
    returns, random = np.zeros(shape), np.zeros((len(tasks), episodes))
    physics: list[np.ndarray] = []
    for step in tqdm(range(domain.episode_length), "evaluate", unit="step", disable=not progress):
        played = agent.act(obs[:num].reshape(*shape, -1), z).reshape(num, -1)
        drawn = noise.uniform(-1, 1, (episodes, domain.action_dim))
        obs = simulator.step(np.concatenate([played, drawn]))
        physics.append(simulator.physics())
        if len(physics) == CHUNK or step + 1 == domain.episode_length:
            states = np.stack(physics)
            physics = []
            own = states[:, :num].reshape(len(states), *shape, -1)
            for i, task in enumerate(tasks):
                returns[:, i] += relabel(domain.name, task, own[:, :, i]).sum(axis=0)
                random[i] += relabel(domain.name, task, states[:, num:]).sum(axis=0)
    return returns, random, _diverged(simulator.blown()[:num].reshape(shape), tasks)


def _diverged(blown: np.ndarray, tasks: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"seed {s}, {tasks[t]}, episode {e}" for s, t, e in np.argwhere(blown))
