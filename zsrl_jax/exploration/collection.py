"""Collect episodes and write them in ExORL's format: by the shipped explorers, or by a new one.

`data.collect.explorer` says which: `shipped` plays the packaged explorers (`playing`), `train`
trains one from nothing (`collector`). A domain that has none in the package is always trained.
A folder holds one collection: of one domain, recipe and seed. Episodes already there count; missing
ones are collected by one process at a time. Any number of processes may read a complete collection.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from ml_collections import ConfigDict
from tqdm import tqdm

from zsrl_jax.data import Dataset, load_dataset
from zsrl_jax.data.formats import exorl
from zsrl_jax.devices import signals
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import DataError, TaskError, unknown
from zsrl_jax.exploration import shipped
from zsrl_jax.exploration.collector import Collection
from zsrl_jax.exploration.playing import Player
from zsrl_jax.files import lock
from zsrl_jax.runs import step_saves
from zsrl_jax.settings.fields import BEFORE
from zsrl_jax.settings.ranges import RANGES, check_ranges
from zsrl_jax.settings.scales import choose_scale, explorer_recipe

EARLIER = {name.removeprefix("data.collect."): value for name, value in BEFORE.items()}
PLAYED = ("noise", "held", "standing")  # fields that decide what shipped explorers do


def collect(
    domain: str,
    episodes: int,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    config: ConfigDict | None = None,
    progress: bool = True,
) -> Dataset:
    """Collect reward-free episodes by exploration, write them to `out`, and return them.

    Episodes already in `out` count. The default config is the recipe of this machine's scale; its
    field `explorer` says whether the shipped explorers play or a new one is trained.
    """
    if domain not in DOMAINS:
        raise TaskError(unknown("domain", domain, DOMAINS))
    if episodes < 1:
        raise DataError(f"episodes is {episodes}: expected at least 1")
    if not (allowed := RANGES["data.seed"]).holds(seed):
        raise DataError(f"seed is {seed}: expected {allowed}")
    config = explorer_recipe(choose_scale()[0]) if config is None else config
    check_ranges(config, "data.collect.", "the explorer's ")
    folder = Path(out) if out else default_folder(domain, episodes, seed)
    recipe = {**recipe_of(domain, config), "seed": seed, "domain": domain}

    def is_whole() -> bool:
        buffer = folder / "buffer"
        return buffer.is_dir() and len(exorl.list_episodes(buffer)) >= episodes

    if is_whole():
        _check_folder(folder, recipe)  # nothing to write: any number of processes may read
    else:
        with signals.caught(), lock.held(folder):
            _check_folder(folder, recipe)
            if not is_whole():
                run = _play if "explorers" in recipe else _train
                run(folder, recipe, episodes, config, progress)
    return load_dataset(folder, "exorl", episodes, progress=progress)


def explorer_of(domain: str, config: ConfigDict) -> str:
    """Return who explores: `shipped` if the recipe says so and there are any, else `train`."""
    return "shipped" if config.explorer == "shipped" and shipped.exist(domain) else "train"


def recipe_of(domain: str, config: ConfigDict) -> dict[str, Any]:
    """Return the fields of a recipe that decide a domain's data, and which explorers play.

    A field with the value that it had before it existed is left out: older collections are found.
    """
    robot = DOMAINS[domain]
    unused = {"standing": robot.standing is None, "held": not robot.pushed}
    fields = {name: value for name, value in config.items() if not unused.get(name)}
    if explorer_of(domain, config) == "shipped":
        played = {name: fields[name] for name in PLAYED if name in fields}
        return played | {"explorers": shipped.read_card(domain)["sha256"][:16]}
    trained = {name: value for name, value in fields.items() if name != "explorer"}
    return {name: value for name, value in trained.items() if EARLIER.get(name) != value}


def default_folder(domain: str, episodes: int, seed: int) -> Path:
    """Return the default folder of a collection."""
    return Path("runs/data") / domain / f"rnd_{episodes}_{seed}"


def _check_folder(folder: Path, recipe: dict[str, Any]) -> None:
    """Make sure that the folder is new or holds this collection."""
    buffer = folder / "buffer"
    buffer.mkdir(parents=True, exist_ok=True)
    save = step_saves.newest(folder / "explorer", whole=False)
    saved = save.meta.get("recipe")
    if saved is None:
        if exorl.list_episodes(buffer):
            raise DataError(
                f"'{buffer}' holds episodes that zsrl_jax did not collect"
                + "".join(f" ({line})" for line in save.passed)
                + ": name another folder"
            )
        return
    changed = [name for name in {**recipe, **saved} if saved.get(name) != recipe.get(name)]
    if changed:
        raise DataError(
            f"'{folder}' holds a collection with another {', '.join(changed)}: "
            "name another folder or delete it"
        )


def _train(
    folder: Path, recipe: dict[str, Any], episodes: int, config: ConfigDict, progress: bool
) -> None:
    """Explore and learn round after round, from the last complete one on disk."""
    run = Collection(folder, recipe, episodes, config)
    with _bar(folder, run.done, episodes, progress) as bar:
        while run.done < episodes:
            metrics = run.round()
            bar.set_postfix(
                {k.split("/")[1]: f"{v:.3g}" for k, v in metrics.items()}, refresh=False
            )
            bar.update(run.done - bar.n)


def _play(
    folder: Path, recipe: dict[str, Any], episodes: int, config: ConfigDict, progress: bool
) -> None:
    """Play the shipped explorers block after block, from the last episode on disk."""
    domain = recipe["domain"]
    if not (folder / "explorer").is_dir():
        step_saves.write(folder / "explorer", 0, {"played": np.zeros(1)}, {"recipe": recipe}, [])
    done = len(exorl.list_episodes(folder / "buffer"))
    player = Player(DOMAINS[domain], shipped.load(domain), recipe["seed"], config, episodes)
    with _bar(folder, done, episodes, progress) as bar:
        while done < episodes:
            done = player.write(folder, done, episodes)
            bar.update(done - bar.n)


def _bar(folder: Path, done: int, episodes: int, progress: bool) -> tqdm:
    if done and progress:
        print(f"collect: goes on from episode {done} ('{folder}')")
    return tqdm(total=episodes, initial=done, unit="episode", desc="collect", disable=not progress)
