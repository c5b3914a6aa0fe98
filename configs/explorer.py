"""The exploring agent's recipe: configs/explorer.py[:SCALE], by default that of the machine.

python -m experiments.collect --domain=cheetah --episodes=500 --recipe=configs/explorer.py:paper
"""

from ml_collections import ConfigDict

from zsrl_jax import explore
from zsrl_jax.scale import choose_scale


def get_config(scale: str = "auto") -> ConfigDict:
    """Return the recipe at a scale: auto, laptop, paper (the public URLB recipe) or smoke."""
    return explore.recipe(choose_scale(scale or "auto")[0]).lock()
