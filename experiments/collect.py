"""Collect reward-free data: python -m experiments.collect --domain=cheetah --episodes=500"""

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from experiments import cli
from zsrl_jax import collect, explore
from zsrl_jax.collection import coverage

DOMAIN = flags.DEFINE_string("domain", "cheetah", "which robot")
EPISODES = flags.DEFINE_integer("episodes", 500, "episodes in all, those on disk included")
SEED = flags.DEFINE_integer("seed", 0, "of the agent and the initial states")
OUT = flags.DEFINE_string("out", None, "folder; default runs/data/<domain>/rnd_<episodes>_<seed>")
RECIPE = config_flags.DEFINE_config_dict("recipe", explore.default_config(), "of the explorer")


def main(_) -> None:
    """Collect what is not on disk yet, then tell what the data covers."""
    out = OUT.value or f"runs/data/{DOMAIN.value}/rnd_{EPISODES.value}_{SEED.value}"
    dataset = collect(DOMAIN.value, EPISODES.value, SEED.value, out, RECIPE.value)
    print(dataset)
    print("\n".join(coverage(dataset)))
    print(f"use it: python -m experiments.run --config=... --config.data.path={Path(out)}")


if __name__ == "__main__":
    cli.run(main)
