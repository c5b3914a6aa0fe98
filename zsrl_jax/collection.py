"""Collect episodes with the exploring agent and write them in ExORL's format.

Environments step together; every few steps the agent takes as many updates as the recipe asks.
After each round of episodes the files and the agent are on disk: a collection that was stopped
goes on from its last whole round, and ends as if it had never been stopped. A signal ends it within
a burst of steps; the round under way is played again.
"""

import functools
import json
import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict
from tqdm import tqdm

from zsrl_jax import checkpoint, explore, lock, saves, signals
from zsrl_jax.data import Dataset, exorl, load_dataset
from zsrl_jax.disk import sync
from zsrl_jax.envs import DOMAINS, Simulator, quantities
from zsrl_jax.envs.domain import often_standing
from zsrl_jax.errors import ConfigError, DataError, TaskError, unknown
from zsrl_jax.scale import choose_scale
from zsrl_jax.types import Spec, Store

BURST = 10  # environment steps between two bursts of updates


def collect(
    domain: str,
    episodes: int,
    seed: int = 0,
    out: str | os.PathLike | None = None,
    config: ConfigDict | None = None,
    progress: bool = True,
) -> Dataset:
    """Collect reward-free episodes by exploration, write them to `out`, and return them.

    Episodes that `out` holds already count. Without a config: the recipe of this machine's scale.
    """
    if domain not in DOMAINS:
        raise TaskError(unknown("domain", domain, DOMAINS))
    if episodes < 1:
        raise DataError(f"episodes is {episodes}: expected at least 1")
    if not 0 <= seed < 4000:  # MuJoCo's starts are drawn from 32-bit seeds, a million for each seed
        raise DataError(f"seed is {seed}: expected one from 0 to 3999")
    config = explore.recipe(choose_scale()[0]) if config is None else config
    for field in ("num_envs", "batch", "steps_per_update"):
        if config[field] <= 0:
            raise ConfigError(f"{field} of the explorer is {config[field]}: expected more than 0")
    folder = Path(out) if out else default_folder(domain, episodes, seed)
    if not 0 <= config.standing <= 1:
        raise ConfigError(f"standing of the explorer is {config.standing}: expected 0 to 1")
    facts = {**recipe_of(domain, config), "seed": seed, "domain": domain}

    def is_whole() -> bool:
        buffer = folder / "buffer"
        return buffer.is_dir() and len(exorl.list_episodes(buffer)) >= episodes

    if is_whole():
        _check_folder(folder, facts)  # nothing to write: any number of processes may read
    else:
        with signals.caught(), lock.held(folder):
            _check_folder(folder, facts)
            if not is_whole():
                _run(folder, facts, episodes, config, progress)
    return load_dataset(folder, "exorl", episodes, progress=progress)


def recipe_of(domain: str, config: ConfigDict) -> dict:
    """Return the fields of a recipe that decide a domain's data."""
    upright = DOMAINS[domain].standing is not None
    return {name: value for name, value in config.items() if upright or name != "standing"}


def default_folder(domain: str, episodes: int, seed: int) -> Path:
    """Return where a collection goes that was given no folder."""
    return Path("runs/data") / domain / f"rnd_{episodes}_{seed}"


def _check_folder(folder: Path, facts: dict) -> None:
    """Make sure that the folder is new or holds this collection."""
    buffer = folder / "buffer"
    buffer.mkdir(parents=True, exist_ok=True)
    save = saves.newest(folder / "explorer", whole=False)
    recipe = save.meta.get("recipe")
    older = folder / "explorer" / checkpoint.MANIFEST
    if older.exists():  # of the layout before saves had a folder each: whole ones can be used
        recipe = json.loads(older.read_text()).get("meta", {}).get("recipe")
    if recipe is None:
        if exorl.list_episodes(buffer):
            raise DataError(
                f"'{buffer}' holds episodes of somebody else"
                + "".join(f" ({line})" for line in save.passed)
                + ": name another folder"
            )
        return
    changed = [name for name, value in facts.items() if recipe.get(name) != value]
    if changed:
        raise DataError(
            f"'{folder}' holds a collection with another {', '.join(changed)}: "
            "name another folder or delete it"
        )


def _run(folder: Path, facts: dict, episodes: int, config, progress: bool) -> None:
    """Collect round after round, from the last whole one on disk."""
    if (folder / "explorer" / checkpoint.MANIFEST).exists():
        raise DataError(
            f"'{folder}' is a collection of an older version, which cannot go on: name another "
            "folder or delete it"
        )
    run = _Collection(folder, facts, episodes, config)
    if run.done and progress:
        print(f"collect: goes on from episode {run.done} ('{folder}')")
    with tqdm(
        total=episodes, initial=run.done, unit="episode", desc="collect", disable=not progress
    ) as bar:
        while run.done < episodes:
            metrics = run.round()
            bar.set_postfix(
                {k.split("/")[1]: f"{v:.3g}" for k, v in metrics.items()}, refresh=False
            )
            bar.update(run.done - bar.n)


class _Collection:
    """The state of a collection: the agent, everything seen so far, and how many are done."""

    def __init__(self, folder, facts, episodes, config):
        self.folder, self.facts, self.config = folder, facts, config
        self.episodes, self.done, self.num_envs = episodes, 0, config.num_envs
        self.domain, self.seed = DOMAINS[facts["domain"]], facts["seed"]
        spec = Spec(self.domain.obs_dim, self.domain.action_dim)
        self.explorer = explore.make(config, spec)
        self.key = jax.random.key(self.seed)
        self.state = jax.jit(self.explorer.init)(jax.random.fold_in(self.key, 0))
        self.simulator = Simulator(often_standing(self.domain, config.standing), self.num_envs)
        rounds = -(-episodes // self.num_envs)
        self.store = _empty_store(rounds * self.num_envs, self.domain.episode_length, spec)
        save = saves.newest(folder / "explorer")
        for line in save.passed:
            print(f"collect: {line}; it is passed over", file=sys.stderr)
        self.good: list[int] = [save.step] if save.folder else []
        if save.folder and save.step:
            self._resume(save)
        elif not save.folder:
            self._save()

    @functools.cached_property
    def act(self):
        def act(state, key, step, obs):
            return self.explorer.act(state, jax.random.fold_in(key, step), obs)

        return jax.jit(act)

    @functools.cached_property
    def learn(self):
        def learn(state, key, store, steps):
            def body(state, step):
                return self.explorer.update(state, jax.random.fold_in(key, step), store)

            state, metrics = jax.lax.scan(body, state, steps)
            return state, jax.tree.map(jnp.mean, metrics)

        return jax.jit(learn, donate_argnums=0)

    def _save(self) -> None:
        meta = {"recipe": self.facts}
        self.good = saves.write(self.folder / "explorer", self.done, self.state, meta, self.good)

    def _resume(self, save: saves.Save) -> None:
        """Take up the agent and all that it has seen."""
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
        metrics: dict[str, jax.Array] = {}
        debt = 0.0
        for start in range(0, steps, BURST):
            signals.check()
            for step in range(start, min(start + BURST, steps)):
                action.append(self._act(key, step, obs[-1]))
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
        sync(self.folder / "buffer")  # before the agent that has seen them
        self.done += wanted
        if wanted == self.num_envs:  # a round cut short is played again if more is asked for
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


def coverage(dataset: Dataset) -> list[str]:
    """Tell how much of the domain a dataset covers: percentiles of quantities, cells visited.

    Cells are those of a grid of side 0.1 over the named scalar quantities: how many different
    combinations of speed, height and uprightness were ever seen.
    """
    if dataset.domain is None or dataset.physics is None:
        return ["coverage unknown: the dataset has no physics of a known domain"]
    rows = np.arange(dataset.obs.shape[1])[None] <= dataset.length[:, None]
    table = quantities(dataset.domain, dataset.physics[rows])._asdict()
    scalars = {name: np.asarray(value) for name, value in table.items() if np.ndim(value) == 1}
    lines = []
    for name, value in scalars.items():
        low, mid, high = np.percentile(value, [1, 50, 99])
        lines.append(f"{name:>16}: 1 % {low:7.2f}   median {mid:7.2f}   99 % {high:7.2f}")
    cells = np.round(np.stack(list(scalars.values()), axis=1) / 0.1).astype(np.int32)
    count = len(np.unique(cells, axis=0))
    lines.append(f"{'state coverage':>16}: {count} cells of side 0.1 in {', '.join(scalars)}")
    return lines
