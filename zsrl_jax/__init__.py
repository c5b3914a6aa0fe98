"""Zero-shot offline reinforcement learning in JAX.

Reward-free data of a robot -> an encoder phi(s) -> task vectors z -> a distribution of tasks -> a
policy pi(s, z) trained on the rewards phi(s).z. Afterwards a new reward function is regressed on
phi, which gives its z, and pi(., z) is its policy: no more training.
"""

from zsrl_jax import gmm
from zsrl_jax.agent import Agent
from zsrl_jax.collection import collect
from zsrl_jax.data import Dataset, load_dataset
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.envs import DOMAINS, quantities, relabel, render
from zsrl_jax.evaluation import Scores, evaluate
from zsrl_jax.finished import load
from zsrl_jax.pipeline import train
from zsrl_jax.tasks import SAMPLERS

__all__ = [
    "DOMAINS",
    "ENCODERS",
    "SAMPLERS",
    "Agent",
    "Dataset",
    "Scores",
    "collect",
    "evaluate",
    "gmm",
    "load",
    "load_dataset",
    "quantities",
    "relabel",
    "render",
    "train",
]
