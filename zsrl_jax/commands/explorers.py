"""Train the explorers that ship: python -m experiments.explorers --domain=walker

Trains --number explorers from nothing for --episodes episodes each, without any task's reward, and
keeps --kept actors of each along the way. The same command again goes on where it was stopped.
The actors and a card that tells how they were made go to --out, by default into the package.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from absl import flags
from ml_collections import config_flags

from zsrl_jax.commands import cli, usage_of
from zsrl_jax.data.summary import BEST_STEPS, state_coverage, what_lasts
from zsrl_jax.envs import DOMAINS, Simulator, relabel
from zsrl_jax.envs.domain import often_standing
from zsrl_jax.errors import DataError
from zsrl_jax.exploration import making, playing, shipped
from zsrl_jax.runs import provenance
from zsrl_jax.settings.by_name import resolve

DOMAIN = flags.DEFINE_string("domain", "cheetah", "which robot")
NUMBER = flags.DEFINE_integer("number", 3, "independent explorers")
EPISODES = flags.DEFINE_integer("episodes", 512, "episodes that each of them trains for")
KEPT = flags.DEFINE_integer("kept", 16, "actors that are kept of each, evenly apart")
FIRST = flags.DEFINE_integer("first_seed", 1000, "seed of the first explorer")
WORK = flags.DEFINE_string("work", "runs/explorers", "folder of the training")
OUT = flags.DEFINE_string("out", str(shipped.FOLDER), "folder of the packed actors")
RECIPE = config_flags.DEFINE_config_file(
    "recipe", resolve("configs/explorer.py:shipped"), "the explorers' fields"
)
PLAYED = 60  # episodes of random actions that the card's coverage is measured on


def main(argv) -> None:
    """Train what is not on disk yet, pack the actors, and print what they cover."""
    cli.refuse_arguments(argv)
    if NUMBER.value < 1:
        raise DataError(f"number is {NUMBER.value}: expected at least 1")
    domain, recipe = DOMAIN.value, cli.read_config(RECIPE)
    wanted = making.ages(EPISODES.value, KEPT.value, recipe.num_envs)
    found = [
        making.train(domain, seed, wanted, Path(WORK.value) / domain / f"seed{seed}", recipe)
        for seed in range(FIRST.value, FIRST.value + NUMBER.value)
    ]
    explorers = _as_packed(domain, making.pack(domain, found))
    young = making.pack(domain, [one[:1] for one in found])
    card = {
        "domain": domain,
        "explorers": NUMBER.value,
        "seeds": [FIRST.value + i for i in range(NUMBER.value)],
        "kept_after_episodes": wanted,
        "recipe": recipe.to_dict(),
        "covers": {
            "all of these": _cover(domain, explorers, recipe),
            "the youngest of each": _cover(domain, young, recipe),
            "random actions": _cover(domain, None, recipe),
        },
        "first_episodes": playing.fingerprint(DOMAINS[domain], explorers, recipe),
        "versions": provenance.versions(),
        "command": usage_of("explorers", " ".join(_deciding(sys.argv[1:]))),
    }
    file = shipped.save(domain, explorers, card, Path(OUT.value), NUMBER.value, shipped.COARSE)
    print(f"{explorers.number} actors of {making.size_of(explorers)} numbers: "
          f"'{file}', {file.stat().st_size / 2**20:.2f} MiB")  # fmt: skip
    for name, lines in card["covers"].items():
        print("\n".join([f"{name}:", *lines]))


def _as_packed(domain: str, explorers: shipped.Explorers) -> shipped.Explorers:
    """Return the explorers as they are read from their file: with rounded weights."""
    place = Path(WORK.value) / domain / "packed"
    shipped.save(domain, explorers, {}, place, NUMBER.value, shipped.COARSE)
    return shipped.load(domain, place)


def _deciding(flags_given: list[str]) -> list[str]:
    """Return the flags that decide the actors: all but the folders, which are of one machine."""
    kept, is_folder = list[str](), False
    for word in flags_given:
        name, equals, _ = word.lstrip("-").partition("=")
        if is_folder or name in ("work", "out"):
            is_folder = not is_folder and not equals  # its value is the next word
        else:
            kept.append(word)
    return kept


def _cover(domain: str, explorers: shipped.Explorers | None, recipe) -> list[str]:
    """Return what a block of episodes covers: of explorers, or (None) of random actions."""
    robot, random = DOMAINS[domain], np.random.default_rng(0)
    if explorers is None:
        simulator = Simulator(often_standing(robot, recipe.standing), PLAYED)
        simulator.reset(range(PLAYED))
        physics = [simulator.physics()]
        for _ in range(robot.episode_length):
            simulator.step(random.uniform(-1, 1, (PLAYED, robot.action_dim)))
            physics.append(simulator.physics())
        found = np.stack(physics, axis=1)
    else:
        found = playing.Player(robot, explorers, 0, recipe).block(0).physics
    length = np.full(len(found), robot.episode_length)
    covered = [*state_coverage(domain, found), *what_lasts(domain, found, length)]
    return [
        *(line.strip() for line in covered),
        "of 1000: " + ", ".join(_earned(domain, found)),
    ]


def _earned(domain: str, physics: np.ndarray) -> Iterator[str]:
    """Yield what the episodes earn in each task on average, and in their best steps in a row."""
    for task in DOMAINS[domain].tasks:
        reward = relabel(domain, task, physics[:, 1:])
        total = np.cumsum(np.pad(reward, ((0, 0), (1, 0))), axis=1)
        best = (total[:, BEST_STEPS:] - total[:, :-BEST_STEPS]).max() / BEST_STEPS
        yield f"{task} {1000 * reward.mean():.0f} (best {BEST_STEPS} steps {1000 * best:.0f})"


if __name__ == "__main__":
    cli.run(main)
