"""Zero-shot offline reinforcement learning in JAX.

Reward-free data of a robot -> an encoder phi(s) -> task vectors z -> a distribution of tasks -> a
policy pi(s, z) trained on the rewards phi(s).z. Afterwards a new reward function is regressed on
phi, which gives its z, and pi(., z) is its policy: no more training.

Names are imported when they are first used: loading an agent and acting with it imports neither an
optimiser nor dm_control.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from zsrl_jax import gmm
    from zsrl_jax.agent import Agent, Prompt
    from zsrl_jax.data import Dataset, load_dataset
    from zsrl_jax.encoders import ENCODERS
    from zsrl_jax.envs import DOMAINS, quantities, relabel, render
    from zsrl_jax.evaluation import Scores, evaluate
    from zsrl_jax.exploration.collection import collect
    from zsrl_jax.oracle import Oracle
    from zsrl_jax.registration import register
    from zsrl_jax.runs.agent_files import load
    from zsrl_jax.settings.cells import config, oracle_config
    from zsrl_jax.tasks import SAMPLERS
    from zsrl_jax.training.pipeline import train
    from zsrl_jax.web.pages import page

_HOMES = {
    "Agent": "agent",
    "Prompt": "agent",
    "Dataset": "data",
    "load_dataset": "data",
    "ENCODERS": "encoders",
    "DOMAINS": "envs",
    "quantities": "envs",
    "relabel": "envs",
    "render": "envs",
    "Scores": "evaluation",
    "evaluate": "evaluation",
    "collect": "exploration.collection",
    "Oracle": "oracle",
    "page": "web.pages",
    "register": "registration",
    "load": "runs.agent_files",
    "config": "settings.cells",
    "oracle_config": "settings.cells",
    "SAMPLERS": "tasks",
    "train": "training.pipeline",
}

__all__ = [
    "DOMAINS",
    "ENCODERS",
    "SAMPLERS",
    "Agent",
    "Dataset",
    "Oracle",
    "Prompt",
    "Scores",
    "__version__",
    "collect",
    "config",
    "evaluate",
    "gmm",
    "load",
    "load_dataset",
    "oracle_config",
    "page",
    "quantities",
    "register",
    "relabel",
    "render",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name from where it lives, once."""
    if name == "gmm":
        return importlib.import_module("zsrl_jax.gmm")
    if name not in _HOMES:
        raise AttributeError(f"module 'zsrl_jax' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"zsrl_jax.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
