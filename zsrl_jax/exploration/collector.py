"""Rounds of a collection: environments step together, and every few steps the agent learns.

After each round of episodes the files and the agent are on disk. A collection that was stopped goes
on from its last complete round, and ends as if it had never been stopped. A signal ends it within a
burst of steps; the unfinished round is played again.

Random numbers come from the key of the collection's seed, apart from those of runs:

    fold_in(key, 0)             the explorer's initial parameters
    fold_in(key, 1 + n)         round n, T steps long; folded again with t < T for the actions of
                                step t, with T + t for the updates after the steps from t on
"""

import functools
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from zsrl_jax.data import load_dataset
from zsrl_jax.data.formats import exorl
from zsrl_jax.devices import signals
from zsrl_jax.envs import DOMAINS, Simulator
from zsrl_jax.envs.domain import often_standing
from zsrl_jax.errors import DataError
from zsrl_jax.exploration import rnd
from zsrl_jax.exploration.pushes import draw_pushes, pushed
from zsrl_jax.files.atomic import sync
from zsrl_jax.runs import checkpoint, step_saves
from zsrl_jax.types import Spec, Store

BURST = 10  # environment steps between two bursts of updates


class Collection:
    """The state of a collection: the agent, all data so far, and how many episodes are done."""

    def __init__(
        self, folder: Path, recipe: dict[str, Any], episodes: int, config: ConfigDict
    ) -> None:
        self.folder, self.recipe, self.config = folder, recipe, config
        self.episodes, self.done, self.num_envs = episodes, 0, config.num_envs
        self.domain, self.seed = DOMAINS[recipe["domain"]], recipe["seed"]
        spec = Spec(self.domain.obs_dim, self.domain.action_dim)
        self.explorer = rnd.make(config, spec)
        self.key = jax.random.key(self.seed)
        self.state = jax.jit(self.explorer.init)(jax.random.fold_in(self.key, 0))
        self.simulator = Simulator(often_standing(self.domain, config.standing), self.num_envs)
        rounds = -(-episodes // self.num_envs)
        self.store = _empty_store(rounds * self.num_envs, self.domain.episode_length, spec)
        save = step_saves.newest(folder / "explorer")
        for line in save.passed:
            print(f"collect: {line}; it is skipped", file=sys.stderr)
        self.good: list[int] = [save.step] if save.folder else []
        if save.folder and save.step:
            self._resume(save)
        elif not save.folder:
            self._save()

    @functools.cached_property
    def act(self):
        """Return the compiled choice of actions."""

        def act(state, key, step, obs):
            return self.explorer.act(state, jax.random.fold_in(key, step), obs)

        return jax.jit(act)

    @functools.cached_property
    def learn(self):
        """Return a compiled burst of updates."""

        def learn(state, key, store, steps):
            def body(state, step):
                return self.explorer.update(state, jax.random.fold_in(key, step), store)

            state, metrics = jax.lax.scan(body, state, steps)
            return state, jax.tree.map(jnp.mean, metrics)

        return jax.jit(learn, donate_argnums=0)

    def _save(self) -> None:
        meta = {"recipe": self.recipe}
        self.good = step_saves.write(
            self.folder / "explorer", self.done, self.state, meta, self.good
        )

    def _resume(self, save: step_saves.Save) -> None:
        """Load the agent and all that it has seen."""
        assert save.folder is not None
        self.state, self.done = checkpoint.restore(save.folder, self.state), save.step
        past = load_dataset(self.folder, "exorl", self.done, progress=False)
        if past.num_episodes < self.done:
            raise DataError(
                f"'{self.folder / 'buffer'}' lost files: expected {self.done}, "
                f"found {past.num_episodes}; delete '{self.folder}' to start anew"
            )
        self.store = self.store._replace(
            obs=self.store.obs.at[: self.done].set(past.obs),
            action=self.store.action.at[: self.done].set(past.action),
            length=self.store.length.at[: self.done].set(past.length),
        )

    def round(self) -> dict[str, float]:
        """Run one episode in every environment, with the updates that belong to it."""
        first, steps = self.done, self.domain.episode_length
        key = jax.random.fold_in(self.key, 1 + first // self.num_envs)
        obs = [
            self.simulator.reset([self.seed * 1_000_003 + first + i for i in range(self.num_envs)])
        ]
        physics, action = [self.simulator.physics()], []
        numbers, shape = range(first, first + self.num_envs), (steps, self.domain.action_dim)
        share = self.config.held if self.domain.pushed else 0.0
        push = draw_pushes(self.seed, numbers, shape, share)
        metrics: dict[str, jax.Array] = {}
        debt = 0.0
        for start in range(0, steps, BURST):
            signals.check()
            for step in range(start, min(start + BURST, steps)):
                chosen = pushed(push[:, step], self._act(key, step, obs[-1]))
                action.append(chosen.astype(np.float32))
                obs.append(self.simulator.step(action[-1]))
                physics.append(self.simulator.physics())
            rows = slice(start, len(action))
            self.store = _write(
                self.store, first, start, _swap(obs[start : len(action) + 1]), _swap(action[rows])
            )
            if (first * steps) + self.num_envs * len(action) < self.config.random_steps:
                continue
            debt += (len(action) - start) * self.num_envs / self.config.steps_per_update
            due, debt = int(debt), debt - int(debt)
            if due:
                moment = jax.random.fold_in(key, steps + start)
                self.state, metrics = self.learn(self.state, moment, self.store, jnp.arange(due))
        wanted = min(self.num_envs, self.episodes - first)
        for i in range(wanted):
            exorl.write_episode(
                self.folder / "buffer", first + i,
                np.stack([o[i] for o in obs]), np.stack([a[i] for a in action]),
                np.stack([p[i] for p in physics]),
            )  # fmt: skip
        sync(self.folder / "buffer")  # before the save of the agent that has seen them
        self.done += wanted
        if wanted == self.num_envs:  # a partial round is played again if more is asked for
            self._save()
        return {name: float(value) for name, value in metrics.items()}

    def _act(self, key, step, obs) -> np.ndarray:
        if self.done * self.domain.episode_length + step * self.num_envs < self.config.random_steps:
            shape = (self.num_envs, self.domain.action_dim)
            key = jax.random.fold_in(key, step)
            return np.asarray(jax.random.uniform(key, shape, minval=-1.0, maxval=1.0))
        return np.asarray(self.act(self.state, key, step, np.asarray(obs, np.float32)))


def _swap(rows: list[np.ndarray]) -> np.ndarray:
    return np.stack(rows, axis=1).astype(np.float32)


def _empty_store(episodes: int, steps: int, spec: Spec) -> Store:
    return Store(
        obs=jnp.zeros((episodes, steps + 1, spec.obs_dim)),
        action=jnp.zeros((episodes, steps, spec.action_dim)),
        discount=jnp.ones((episodes, steps)),
        length=jnp.zeros(episodes, jnp.int32),
    )


@functools.partial(jax.jit, donate_argnums=0)
def _write(store: Store, first, start, obs, action) -> Store:
    """Put a burst of steps of the running episodes into the store."""
    length = jnp.full(obs.shape[0], start + action.shape[1], jnp.int32)
    return store._replace(
        obs=jax.lax.dynamic_update_slice(store.obs, obs, (first, start, 0)),
        action=jax.lax.dynamic_update_slice(store.action, action, (first, start, 0)),
        length=jax.lax.dynamic_update_slice(store.length, length, (first,)),
    )
