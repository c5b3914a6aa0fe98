"""Make the explorers that ship: train several from nothing, and keep their actors on the way.

Explorer i keeps its actor after 1/K, 2/K, ..., K/K of its episodes. All explorers' actors of one
age stand together, youngest first. Training is resumable: what is on disk is not trained again.
"""

from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict
from tqdm import tqdm

from zsrl_jax.devices import signals
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import ConfigError, TaskError, unknown
from zsrl_jax.exploration import shipped
from zsrl_jax.exploration.collection import recipe_of
from zsrl_jax.exploration.collector import Collection
from zsrl_jax.exploration.shipped import Explorers
from zsrl_jax.files import lock
from zsrl_jax.settings.ranges import check_ranges


def ages(episodes: int, kept: int, num_envs: int) -> list[int]:
    """Return the numbers of episodes after which an actor is kept: whole rounds, evenly apart."""
    rounds = episodes // num_envs
    if not 1 <= kept <= rounds:
        raise ConfigError(
            f"kept is {kept}: expected 1 to {rounds}, the rounds of {num_envs} in {episodes} "
            "episodes"
        )
    return [num_envs * round(rounds * (i + 1) / kept) for i in range(kept)]


def train(
    domain: str, seed: int, wanted: list[int], folder: Path, config: ConfigDict
) -> list[Explorers]:
    """Train one explorer, and return its actor at each wanted age; goes on from what is on disk."""
    if domain not in DOMAINS:
        raise TaskError(unknown("domain", domain, DOMAINS))
    check_ranges(config, "data.collect.", "the explorer's ")
    config = ConfigDict(config.to_dict() | {"explorer": "train"})
    files = [folder / f"actor_{age:06d}" for age in wanted]
    if not all(shipped.exist(domain, file) for file in files):
        with signals.caught(), lock.held(folder):
            _train(domain, seed, dict(zip(wanted, files, strict=True)), folder, config)
    return [shipped.load(domain, file) for file in files]


def _train(
    domain: str, seed: int, files: dict[int, Path], folder: Path, config: ConfigDict
) -> None:
    recipe: dict[str, Any] = {**recipe_of(domain, config), "seed": seed, "domain": domain}
    (folder / "buffer").mkdir(parents=True, exist_ok=True)
    run = Collection(folder, recipe, max(files), config)
    with tqdm(total=run.episodes, initial=run.done, unit="episode", desc=f"explorer {seed}") as bar:
        while run.done < run.episodes:
            run.round()
            if run.done in files:
                one = shipped.snapshot(run.state)
                shipped.save(domain, one, {"seed": seed, "episodes": run.done}, files[run.done])
            bar.update(run.done - bar.n)


def pack(domain: str, by_explorer: list[list[Explorers]]) -> Explorers:
    """Put the actors of all explorers together, youngest first."""
    by_age = [list(same_age) for same_age in zip(*by_explorer, strict=True)]
    return shipped.join([one for same_age in by_age for one in same_age])


def size_of(explorers: Explorers) -> int:
    """Count the numbers of one actor."""
    return sum(int(np.prod(x.shape[1:])) for x in _leaves(explorers.actor))


def _leaves(tree: Any) -> list[np.ndarray]:
    if isinstance(tree, dict):
        return [leaf for branch in tree.values() for leaf in _leaves(branch)]
    return [tree]
