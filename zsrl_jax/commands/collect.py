"""Collect reward-free data: python -m experiments.collect --domain=cheetah --episodes=500

Plays the explorers that ship with the package, where it has any for the domain: minutes. --train
trains one from nothing instead. Its recipe is that of the machine's scale;
--recipe=configs/explorer.py:paper takes another; --recipe.batch=512 sets a field.
"""

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from zsrl_jax import collect
from zsrl_jax.commands import cli, usage_of
from zsrl_jax.data.summary import coverage
from zsrl_jax.envs import DOMAINS
from zsrl_jax.exploration import shipped
from zsrl_jax.exploration.collection import default_folder, explorer_of
from zsrl_jax.settings.by_name import resolve

DOMAIN = flags.DEFINE_string("domain", "cheetah", "which robot")
EPISODES = flags.DEFINE_integer("episodes", 500, "episodes in total, including those on disk")
SEED = flags.DEFINE_integer("seed", 0, "seed of the agent and the initial states")
OUT = flags.DEFINE_string("out", None, "folder; default runs/data/<domain>/rnd_<episodes>_<seed>")
TRAIN = flags.DEFINE_bool("train", False, "train an explorer instead of playing the shipped ones")
RECIPE = config_flags.DEFINE_config_file(
    "recipe", resolve("configs/explorer.py"), "the explorer's fields"
)


def main(argv) -> None:
    """Collect what is not on disk yet, then print what the data covers."""
    cli.refuse_arguments(argv)
    out = Path(OUT.value or default_folder(DOMAIN.value, EPISODES.value, SEED.value))
    recipe = cli.read_config(RECIPE)
    recipe.explorer = "train" if TRAIN.value else recipe.explorer
    print(f"explorer: {_describe(recipe)}")
    dataset = collect(DOMAIN.value, EPISODES.value, SEED.value, out, recipe)
    print(dataset)
    print("\n".join(coverage(dataset)))
    print(f"use it: {usage_of('run', f'--config=... --config.data.path={out}')}")


def _describe(recipe) -> str:
    """Say in a line who explores."""
    if DOMAIN.value in DOMAINS and explorer_of(DOMAIN.value, recipe) == "shipped":
        return f"{shipped.load(DOMAIN.value).number} trained actors of the package are played"
    missing = recipe.explorer == "shipped" and DOMAIN.value in DOMAINS
    why = f"the package has none of {DOMAIN.value}, so " if missing else ""
    updates = 1 / recipe.steps_per_update
    return (
        f"{why}one is trained: width {recipe.width}, batch {recipe.batch}, "
        f"{updates:.2g} updates per step"
    )


if __name__ == "__main__":
    cli.run(main)
