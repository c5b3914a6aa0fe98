"""Episodes of seeds x tasks, and of the random policy, in a simulator or an environment.

    returns[seed, task, episode] = sum_t r(s_t+1)

A score does not depend on its company. Products of other shapes round differently, and a robot
amplifies the last digit; so the policy acts on GROUP episodes of one task at a time, filled up with
copies, however many tasks and episodes are asked.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from zsrl_jax.asked_tasks import Asked, Player, Steps
from zsrl_jax.devices import signals
from zsrl_jax.envs import DOMAINS, External, Simulator
from zsrl_jax.errors import DataError

CHUNK = 50  # steps whose rewards are computed together
GROUP = 10  # episodes of a task that the policy acts on together
MAX_STEPS = 1000  # of an episode in an environment


class Played(NamedTuple):
    """What episodes gave."""

    returns: Float[np.ndarray, "seed task episode"]
    random: Float[np.ndarray, "task episode"]
    blown: Float[np.ndarray, "seed task episode"]  # whether the simulation diverged


def start_seeds(seed: int, episodes: int) -> np.ndarray:
    """Return the simulator's seeds of an evaluation; no episode of our data starts from them."""
    return np.random.SeedSequence([seed, 0x5C0]).generate_state(episodes)


class Game(NamedTuple):
    """One batch of parallel episodes: seeds x tasks x episodes, then the random policy's."""

    agent: Player
    tasks: Sequence[Asked]
    episodes: int
    seed: int
    progress: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the numbers of seeds, tasks and episodes."""
        return (self.agent.num_seeds, len(self.tasks), self.episodes)

    @property
    def total(self) -> int:
        """Count all episodes played together: those of the agent, then of the random policy."""
        return int(np.prod(self.shape)) + self.episodes

    def starts(self) -> np.ndarray:
        """Return the start seed of each episode: episode e always starts from the same state."""
        return np.tile(start_seeds(self.seed, self.episodes), self.total // self.episodes)

    def policy(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return obs [total, O] -> action [total, A]."""
        noise = np.random.default_rng(self.seed)
        action_dim = self.agent.spec.action_dim

        def act(obs: np.ndarray) -> np.ndarray:
            obs = np.where(np.isfinite(obs), obs, 0.0)  # of a diverged episode, told as such
            own, _ = self.split(obs)
            played = np.empty((*self.shape, action_dim))
            for i, task in enumerate(self.tasks):
                for first in range(0, self.episodes, GROUP):
                    group = slice(first, first + GROUP)
                    played[:, i, group] = act_together(self.agent, own[:, i, group], task.prompt.z)
            drawn = noise.uniform(-1, 1, (self.episodes, action_dim))
            return np.concatenate([played.reshape(-1, action_dim), drawn])

        return act

    def split(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split values [total, ...] into the agent's, by seed, task and episode, and the random."""
        own, drawn = values[: -self.episodes], values[-self.episodes :]
        return own.reshape(*self.shape, *values.shape[1:]), drawn


def act_together(agent: Player, obs: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Act on at most GROUP episodes [seed, n, O] under one z; the shape is always that of GROUP."""
    filled = np.resize(np.arange(obs.shape[1]), GROUP)
    tasks = np.broadcast_to(z[:, None], (len(z), GROUP, z.shape[-1]))
    return agent.act(obs[:, filled], tasks)[:, : obs.shape[1]]


def simulate(game: Game) -> Played:
    """Play all episodes in our simulator; compute rewards from its states, chunk by chunk."""
    domain = DOMAINS[str(game.agent.domain)]
    simulator, act = Simulator(domain.name, game.total), game.policy()
    obs = simulator.reset(game.starts())
    returns, random = np.zeros(game.shape), np.zeros(game.shape[1:])
    seen: list[Steps] = []
    steps = tqdm(range(domain.episode_length), "evaluate", unit="step", disable=not game.progress)
    for step in steps:
        signals.check()
        before, obs = obs, simulator.step(act(obs))
        seen.append(Steps(before, obs, simulator.physics()))
        if len(seen) == CHUNK or step + 1 == domain.episode_length:
            played = Steps(*(np.stack(part, axis=1) for part in zip(*seen, strict=True)))
            seen = []
            for i, task in enumerate(game.tasks):
                earned, drawn = _earned(game, i, task, played)
                returns[:, i] += earned.sum(axis=-1)
                random[i] += drawn.sum(axis=-1)
    return Played(returns, random, game.split(simulator.blown())[0])


def _earned(game: Game, place: int, task: Asked, steps: Steps) -> tuple[np.ndarray, np.ndarray]:
    """Return a task's rewards of steps [total, step, ...]: [seed, episode, step], and random's."""
    assert task.reward is not None
    seeds, _, episodes = game.shape
    found = []
    for states in zip(*(game.split(x) for x in steps if x is not None), strict=True):
        # first the agent's states, then the random policy's, which every seed judges
        of_task = [x[:, place] if x.ndim == 5 else np.broadcast_to(x, (seeds, *x.shape))
                   for x in states]  # fmt: skip
        value = task.reward(Steps(*(x.reshape(seeds, -1, x.shape[-1]) for x in of_task)))
        found.append(value.reshape(seeds, episodes, -1))
    return found[0], found[1].mean(axis=0)


def play_in(game: Game, environment: Callable[..., Any], timeout: float) -> Played:
    """Play all episodes in a foreign environment, with its own rewards or the tasks'."""
    returns, random = np.zeros(game.shape), np.zeros(game.shape[1:])
    with External(environment, game.total, timeout=timeout) as env:
        if (env.obs_dim, env.action_dim) != game.agent.spec:
            raise DataError(
                f"the environment has obs {env.obs_dim} and action {env.action_dim}: expected "
                f"{game.agent.spec.obs_dim} and {game.agent.spec.action_dim}, as in the data"
            )
        act, obs = game.policy(), env.reset(game.starts())
        for _ in tqdm(range(MAX_STEPS), "evaluate", unit="step", disable=not game.progress):
            signals.check()
            goes_on, drawn_goes_on = game.split(~env.ended())
            before, obs = obs, env.step(act(obs))
            own, drawn = game.split(env.reward())
            for i, task in enumerate(game.tasks):
                if task.reward is None:
                    returns[:, i] += own[:, i]
                    random[i] += drawn
                else:
                    steps = Steps(before[:, None], obs[:, None])
                    earned, by_chance = _earned(game, i, task, steps)
                    returns[:, i] += np.where(goes_on[:, i], earned[..., 0], 0.0)
                    random[i] += np.where(drawn_goes_on, by_chance[..., 0], 0.0)
            if env.ended().all():
                break
        return Played(returns, random, game.split(env.blown())[0])
