"""Copies of any environment, stepped in processes: slow, with the interface of `Simulator`.

    returns = sum_t r_t until the episode ends;  r = the environment's, or your own function of obs

The factory is called in the processes, so they must be able to import it (a function of a module,
or functools.partial of one). num_processes=0 steps in this process and takes any factory; by
default that is done for a factory that processes cannot import, such as a lambda.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from zsrl_jax.devices import signals
from zsrl_jax.envs.adapter import Factory, refuse_instance
from zsrl_jax.envs.workers import Local, Remote, can_be_sent
from zsrl_jax.errors import DataError, ZsrlError

Rewarder = Callable[[np.ndarray], Any]


class External:
    """num_envs copies of a dm_env or Gymnasium environment; close it, or use it in a `with`.

    reward: your own reward, a function of the observations reached [N, O] -> [N]; by default the
    environment's own. After the end of its episode a copy is not stepped and earns 0.
    timeout: seconds that the processes have for a step or a reset.
    """

    def __init__(
        self,
        factory: Factory,
        num_envs: int,
        num_processes: int | None = None,
        reward: Rewarder | None = None,
        timeout: float = 60.0,
    ):
        refuse_instance(factory)
        self.num_envs, self._rewarder = num_envs, reward
        if num_processes is None and not can_be_sent(factory):
            warnings.warn(
                f"processes cannot import the factory {factory!r}, so its environments are "
                "stepped one after the other in this one: a function of a module is faster",
                stacklevel=2,
            )
            num_processes = 0
        wanted = (os.cpu_count() or 1) if num_processes is None else num_processes
        self._shares = [x for x in np.array_split(np.arange(num_envs), max(wanted, 1)) if len(x)]
        if wanted == 0:
            self._workers: list[Any] = [Local(factory, num_envs)]
        else:
            self._workers = [Remote(factory, len(share), timeout) for share in self._shares]
        try:
            self.obs_dim, self.action_dim = self._gather([("sizes", None)] * len(self._workers))[0]
        except ZsrlError:
            self.close()
            raise
        self._clear()

    def _clear(self) -> None:
        self._ended = np.zeros(self.num_envs, bool)
        self._blown = np.zeros(self.num_envs, bool)
        self._reward = np.zeros(self.num_envs)

    def reset(self, seeds: Sequence[int] | np.ndarray) -> np.ndarray:
        """Start an episode in each environment from its own seed; return obs [N, O]."""
        seeds = np.asarray(seeds)
        if seeds.shape != (self.num_envs,):
            raise DataError(f"seeds {seeds.shape}: expected one for each of {self.num_envs} envs")
        self._clear()
        return np.concatenate(self._gather([("reset", seeds[share]) for share in self._shares]))

    def step(self, action: np.ndarray) -> np.ndarray:
        """Apply actions [N, A] in [-1, 1]; return obs [N, O]."""
        action = np.asarray(action, np.float64)
        if action.shape != (self.num_envs, self.action_dim):
            raise DataError(f"action {action.shape}: expected {(self.num_envs, self.action_dim)}")
        answers = self._gather([("step", action[share]) for share in self._shares])
        obs, reward, ended = (np.concatenate(part) for part in zip(*answers, strict=True))
        if self._rewarder is not None:
            reward = np.asarray(self._rewarder(obs), np.float64)
            if reward.shape != (self.num_envs,):
                raise DataError(f"reward {reward.shape} of obs {obs.shape}: expected one per row")
        self._reward = np.where(self._ended, 0.0, reward)
        self._blown |= ~np.isfinite(obs).all(axis=1)
        self._ended |= ended
        return obs

    def reward(self) -> np.ndarray:
        """Return the reward [N] of the last step; 0 where the episode had ended before it."""
        return self._reward

    def ended(self) -> np.ndarray:
        """Return [N]: whether the episode is over."""
        return self._ended.copy()

    def blown(self) -> np.ndarray:
        """Return [N]: whether this episode has shown an observation that is not finite."""
        return self._blown.copy()

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> "External":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _gather(self, calls: Sequence[tuple[str, Any]]) -> list[Any]:
        for worker, call in zip(self._workers, calls, strict=True):
            worker.send(call)
        return [worker.receive() for worker in self._workers]


def play(
    env: External,
    act: Callable[[np.ndarray], Any],
    seeds: Sequence[int] | np.ndarray,
    max_steps: int = 1000,
    progress: bool = True,
) -> np.ndarray:
    """Play an episode from each seed with act(obs [N, O]) -> action [N, A]; give returns [N]."""
    obs, returns = env.reset(seeds), np.zeros(env.num_envs)
    for _ in tqdm(range(max_steps), "evaluate", unit="step", disable=not progress):
        signals.check()
        obs = env.step(np.asarray(act(obs)))
        returns += env.reward()
        if env.ended().all():
            break
    return returns
