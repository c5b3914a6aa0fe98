"""Scores: policies x tasks x episodes in one batch of simulations -> returns[seed, task, episode].

Episode e starts from the same state for every seed and task, so differences between seeds are
differences between policies. The random policy (uniform actions) plays the same episodes.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from zsrl_jax.agent import Agent, Prompt
from zsrl_jax.devices import signals
from zsrl_jax.envs import DOMAINS, External, Simulator, play, relabel
from zsrl_jax.errors import DataError, TaskError, unknown
from zsrl_jax.oracle import Oracle
from zsrl_jax.runs.agent_files import load

CHUNK = 50  # steps whose rewards are computed together
COLUMNS = (
    ("random", 8), ("data mean", 11), ("data best", 11), ("agent", 8), ("± seeds", 9),
    ("± episodes", 12), ("R²", 7),
)  # fmt: skip
DIGITS = (0, 0, 0, 0, 0, 0, 2)


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
        rows += [f"diverged: {place}" for place in self.blown]
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
    tasks: Sequence[str] | Mapping[str, Any] | None = None,
    episodes: int = 10,
    seed: int = 0,
    progress: bool = True,
    *,
    environment: Callable[..., Any] | None = None,
    reward: Callable[[np.ndarray], Any] | None = None,
    timeout: float = 60.0,
) -> Scores:
    """Score an agent (or the run in a folder) on tasks it was never trained for.

    `tasks` are names, or names with their z[seed, d]. `environment` is a factory of dm_env or
    Gymnasium environments, stepped in processes instead of our simulator. The score is then its
    own reward, or `reward`, a function of the observations reached [N, O] -> [N]. An environment
    that takes more than `timeout` seconds for a step is ended with an error.
    """
    agent = load(agent) if isinstance(agent, str | os.PathLike) else agent
    if episodes < 1:
        raise DataError(f"episodes is {episodes}: expected at least 1")
    if reward is not None and environment is None:
        raise DataError("evaluate got a reward without an environment: give it to agent.infer")
    names = _names(agent, tasks, environment is not None)
    given = tasks if isinstance(tasks, Mapping) else {}
    prompts = [_given(agent, given[n]) if n in given else agent.prompt(n) for n in names]
    game = _Game(agent, names, np.stack([p.z for p in prompts], axis=1), episodes, seed, progress)
    if environment is None:
        returns, random, blown = _simulate(game)
    else:
        returns, random, blown = _play(game, environment, reward, timeout)
    places = tuple(f"seed {s}, {names[t]}, episode {e}" for s, t, e in np.argwhere(blown))
    r2, ridge, cosine = (
        np.stack([getattr(prompt, name) for prompt in prompts], axis=1)
        for name in ("r2", "ridge", "cosine")
    )
    domain = agent.domain or "environment"
    return Scores(domain, names, returns, random, r2, ridge, cosine, places)


def start_seeds(seed: int, episodes: int) -> np.ndarray:
    """Return the simulator's seeds of an evaluation; no episode of our data starts from them."""
    return np.random.SeedSequence([seed, 0x5C0]).generate_state(episodes)


def _names(agent: Agent | Oracle, tasks: Any, foreign: bool) -> tuple[str, ...]:
    """Return the names of the tasks; those of our simulator must be tasks of its domain."""
    if foreign and tasks is not None:
        return (tasks,) if isinstance(tasks, str) else tuple(tasks)
    if agent.domain not in DOMAINS:
        raise TaskError(unknown("domain", str(agent.domain), DOMAINS))
    known = DOMAINS[agent.domain].tasks
    tasks = agent.task_names if tasks is None else tasks
    names = (tasks,) if isinstance(tasks, str) else tuple(tasks)
    for name in names:
        if name not in known:
            raise TaskError(unknown(f"{agent.domain} task", name, known))
    return names


def _given(agent: Agent | Oracle, z: Any) -> Prompt:
    z = np.asarray(z, np.float32)
    if z.shape != (expected := (agent.num_seeds, agent.z_dim)):
        raise DataError(f"z has shape {z.shape}: expected {expected}, as agent.infer gives it")
    return Prompt(z, *(np.full(agent.num_seeds, np.nan) for _ in range(3)))


class _Game(NamedTuple):
    """One batch of parallel episodes: seeds x tasks x episodes, then the random policy's."""

    agent: Agent | Oracle
    tasks: tuple[str, ...]
    z: Float[np.ndarray, "seed task d"]
    episodes: int
    seed: int
    progress: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.agent.num_seeds, len(self.tasks), self.episodes)

    @property
    def lanes(self) -> int:
        return int(np.prod(self.shape)) + self.episodes

    def starts(self) -> np.ndarray:
        """Return the start seed of each episode: episode e always starts from the same state."""
        return np.tile(start_seeds(self.seed, self.episodes), self.lanes // self.episodes)

    def policy(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return obs [lanes, O] -> action [lanes, A]."""
        z = np.repeat(self.z[:, :, None], self.episodes, axis=2)
        noise = np.random.default_rng(self.seed)
        action_dim = self.agent.spec.action_dim

        def act(obs: np.ndarray) -> np.ndarray:
            own = obs[: -self.episodes].reshape(*self.shape, -1)
            played = self.agent.act(own, z).reshape(-1, action_dim)
            return np.concatenate([played, noise.uniform(-1, 1, (self.episodes, action_dim))])

        return act

    def split(self, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split values [..., lanes] into the agent's and the random policy's."""
        own = lanes[..., : -self.episodes]
        return own.reshape(*lanes.shape[:-1], *self.shape), lanes[..., -self.episodes :]


def _simulate(game: _Game) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Play all episodes in our simulator; compute rewards from its states, chunk by chunk."""
    domain = DOMAINS[str(game.agent.domain)]
    simulator, act = Simulator(domain.name, game.lanes), game.policy()
    obs = simulator.reset(game.starts())
    returns, random = np.zeros(game.shape), np.zeros(game.shape[1:])
    physics: list[np.ndarray] = []
    steps = tqdm(range(domain.episode_length), "evaluate", unit="step", disable=not game.progress)
    for step in steps:
        signals.check()
        obs = simulator.step(act(obs))
        physics.append(simulator.physics())
        if len(physics) == CHUNK or step + 1 == domain.episode_length:
            states, physics = np.stack(physics), []
            for i, task in enumerate(game.tasks):
                own, drawn = game.split(relabel(domain.name, task, states))
                returns[:, i] += own[:, :, i].sum(axis=0)
                random[i] += drawn.sum(axis=0)
    return returns, random, game.split(simulator.blown())[0]


def _play(
    game: _Game,
    environment: Callable[..., Any],
    reward: Callable[[np.ndarray], Any] | None,
    timeout: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Play all episodes in a foreign environment, with its own reward or the user's."""
    with External(environment, game.lanes, reward=reward, timeout=timeout) as env:
        if (env.obs_dim, env.action_dim) != game.agent.spec:
            raise DataError(
                f"the environment has obs {env.obs_dim} and action {env.action_dim}: expected "
                f"{game.agent.spec.obs_dim} and {game.agent.spec.action_dim}, as in the data"
            )
        own, drawn = game.split(play(env, game.policy(), game.starts(), progress=game.progress))
        return own, np.tile(drawn, (len(game.tasks), 1)), game.split(env.blown())[0]
