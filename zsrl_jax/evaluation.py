"""Scores: policies x tasks x episodes in one batch of simulations -> returns[seed, task, episode].

Episode e starts from the same state for every seed and task, so differences between seeds are
differences between policies. The random policy (uniform actions) plays the same episodes. A score
is the same alone and among other tasks (`rollouts`).
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from zsrl_jax.agent import Agent
from zsrl_jax.asked_tasks import ask
from zsrl_jax.envs.adapter import refuse_instance
from zsrl_jax.errors import DataError
from zsrl_jax.oracle import Oracle
from zsrl_jax.rollouts import Game, play_in, simulate, start_seeds
from zsrl_jax.runs.agent_files import load

COLUMNS = (
    ("random", 8), ("data mean", 11), ("data best", 11), ("agent", 8), ("± seeds", 9),
    ("± episodes", 12), ("R²", 7),
)  # fmt: skip
DIGITS = (0, 0, 0, 0, 0, 0, 2)
__all__ = ["Scores", "evaluate", "start_seeds"]


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """Returns of an agent and of the random policy; prints as a table."""

    domain: str
    tasks: tuple[str, ...]
    returns: Float[np.ndarray, "seed task episode"]
    random: Float[np.ndarray, "task episode"]
    r2: Float[np.ndarray, "seed task"]  # of each task's reward regression
    ridge: Float[np.ndarray, "seed task"]  # its strength
    cosine: Float[np.ndarray, "seed task"]  # of each prompt's z with the data's nearest task
    blown: tuple[str, ...] = ()  # episodes whose simulation diverged
    data_mean: Float[np.ndarray, " task"] | None = None  # return of the data's mean episode
    data_best: Float[np.ndarray, " task"] | None = None  # 1000 x the data's best 100 steps
    notes: tuple[str, ...] = ()  # what the scores of tasks are that are not the domain's

    def __str__(self) -> str:
        """Return the table: one row per task, then the mean."""
        played = np.isfinite(self.returns).all(axis=(1, 2))
        if not played.all() and played.any():
            return f"{self._of(played)}\nleft out: {int((~played).sum())} failed seed(s)"
        seeds, _, episodes = self.returns.shape
        head = "".join([f"{self.domain:<16}", *(f"{name:>{size}}" for name, size in COLUMNS)])
        rows = [head, "-" * len(head)]
        rows += [self._row(task, i) for i, task in enumerate(self.tasks)]
        rows += ["-" * len(head), self._row("mean", slice(None))]
        rows.append(f"returns of 1000 steps; {seeds} seed(s) x {episodes} episodes")
        rows += [*self.notes, *(f"diverged: {place}" for place in self.blown)]
        return "\n".join(rows)

    def _row(self, name: str, tasks: int | slice) -> str:
        """Draw one task, or the mean of all."""
        mean = isinstance(tasks, slice)
        own = self.returns.mean(axis=1) if mean else self.returns[:, tasks]
        random = self.random.mean(axis=0) if mean else self.random[tasks]
        data, best = (
            np.nan if found is None else float(np.mean(found[tasks]))
            for found in (self.data_mean, self.data_best)
        )
        over_seeds = own.mean(axis=1).std(ddof=1) if len(own) > 1 else np.nan
        r2 = np.nan if mean else float(self.r2[:, tasks].mean())
        values = random.mean(), data, best, own.mean(), over_seeds, own.std(axis=1).mean(), r2
        cells = [
            (f"{value:>{size}.{digits}f}" if np.isfinite(value) else f"{'-':>{size}}")
            for (_, size), value, digits in zip(COLUMNS, values, DIGITS, strict=True)
        ]
        return f"{name:<16}" + "".join(cells)

    def without(self, places: Iterable[int]) -> "Scores":
        """Return the scores with nan for some seeds, which failed."""
        returns = self.returns.copy()
        returns[list(places)] = np.nan
        return dataclasses.replace(self, returns=returns)

    def _of(self, seeds: np.ndarray) -> "Scores":
        """Return the scores of some seeds only."""
        names = ("returns", "r2", "ridge", "cosine")
        return dataclasses.replace(self, **{name: getattr(self, name)[seeds] for name in names})


def evaluate(
    agent: Agent | Oracle | str | os.PathLike[str],
    tasks: Sequence[str] | Mapping[str, Any] | Callable[..., Any] | None = None,
    episodes: int = 10,
    seed: int = 0,
    progress: bool = True,
    *,
    environment: Callable[..., Any] | None = None,
    reward: Callable[..., Any] | str | None = None,
    timeout: float = 60.0,
) -> Scores:
    """Score an agent (or the run in a folder) on tasks it was never trained for.

    `tasks` are names; or names with what each is: a task's name, a function of physics states
    [N, P] -> [N], or z[seed, d]. A z is scored with the task of its name, else with its own reward
    phi(s).z. `reward` alone is a task; beside `tasks` it scores all of them.

    `environment` is a factory of dm_env or Gymnasium environments, stepped in processes instead of
    our simulator. Functions are then of the observations reached [N, O] -> [N]; other tasks are
    scored with the environment's own reward. An environment that takes more than `timeout` seconds
    for a step is ended with an error.
    """
    agent = load(agent) if isinstance(agent, str | os.PathLike) else agent
    if not hasattr(agent, "act"):
        kind = type(agent).__name__
        raise DataError(f"agent is a {kind}: expected an agent, or the folder of a run")
    if episodes < 1:
        raise DataError(f"episodes is {episodes}: expected at least 1")
    if environment is not None:
        refuse_instance(environment)
    asked = ask(agent, tasks, reward, environment is not None)
    game = Game(agent, asked, episodes, seed, progress)
    played = simulate(game) if environment is None else play_in(game, environment, timeout)
    names = tuple(task.name for task in asked)
    places = tuple(f"seed {s}, {names[t]}, episode {e}" for s, t, e in np.argwhere(played.blown))
    r2, ridge, cosine = (
        np.stack([getattr(task.prompt, name) for task in asked], axis=1)
        for name in ("r2", "ridge", "cosine")
    )
    notes = tuple(task.note for task in asked if task.note)
    domain = agent.domain or "environment"
    return Scores(
        domain, names, played.returns, played.random, r2, ridge, cosine, places, notes=notes
    )
