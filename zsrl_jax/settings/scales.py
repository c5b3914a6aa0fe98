"""The scales: how each changes the defaults (paper scale), and how one is chosen.

paper    the paper's sizes; needs an accelerator
laptop   two cores, minutes
smoke    seconds: shows that everything works, says nothing about the method
"""

from typing import Any, NamedTuple

import jax
from ml_collections import ConfigDict

from zsrl_jax.errors import ConfigError, unknown
from zsrl_jax.settings.fields import explorer_fields

SCALES: dict[str, dict[str, Any]] = {
    "paper": {},
    "laptop": {
        "seeds": 1,
        "log_every": 250,
        "checkpoint_every": 5000,
        "data": {
            "normalize": "standard",
            "episodes": 512,
            "collect": {
                "explorer": "shipped",
                "num_envs": 32,
                "width": 256,
                "rnd_width": 256,
                "horizon": 1,
                "rnd_dim": 64,
                "batch": 256,
                "learning_rate": 3e-4,
                "random_steps": 8000,
                "steps_per_update": 24.0,
            },
        },
        "encoder": {
            "updates": 8000,
            "batch": 512,
            "hidden": (128, 128, 128),
            "learning_rate": 3e-4,
        },
        "tasks": {"center": True},
        "policy": {
            "updates": 40_000,
            "num_tasks": 32,
            "per_task": 4,
            "width": 128,
            "learning_rate": 3e-4,
            "head_norm": True,
            "behaviour": 0.1,
            "successor": 1.0,
            "actor_average": 0.001,
            "anneal": True,
            "horizon": 10,
            "pessimism": 0.0,
        },
    },
    "smoke": {
        "seeds": 1,
        "log_every": 20,
        "checkpoint_every": 40,
        "data": {
            "normalize": "standard",
            "episodes": 4,
            "collect": {
                "explorer": "train",
                "num_envs": 4,
                "width": 32,
                "rnd_width": 32,
                "horizon": 1,
                "rnd_dim": 8,
                "batch": 32,
                "random_steps": 1000,
                "steps_per_update": 100.0,
            },
        },
        "encoder": {"updates": 60, "batch": 64, "hidden": (32, 32), "dim": 8},
        "tasks": {"num_subtrajectories": 500, "num_components": 4, "num_iters": 20},
        "policy": {"updates": 60, "num_tasks": 8, "per_task": 8, "width": 32},
        "infer": {"num_states": 1000},
        "evaluate": {"episodes": 2},
    },
}

# Fields that only one encoder has, by scale and encoder.
OF_ENCODER: dict[tuple[str, str], dict[str, Any]] = {
    ("laptop", "fb"): {"encoder": {"width": 128}},
    ("smoke", "fb"): {"encoder": {"width": 32}},
}


# An explorer of small nets and batches, which makes more updates in the same time.
SMALL_EXPLORER: dict[str, Any] = {
    "width": 128,
    "rnd_width": 128,
    "batch": 128,
    "horizon": 3,
    "steps_per_update": 8.0,
}

# Fields that suit one domain, by scale and domain. The walker falls within some steps, so it looks
# 20 steps ahead instead of 100; its policy is not held near the data, and acts by the choice of its
# critic, because that knows far better actions than its actor. In the maze, which has no explorers
# that ship, half of the data is by random actions from any room, because the explorer keeps to the
# walls; its rewards are paid in few states, so more of them are labelled. The quadruped trains an
# explorer of its own, because an agent learns more from one explorer's way of getting up than from
# the ways of three (docs/results/quadruped.md). That explorer makes more updates, each of them
# smaller: after some 40,000 it gets up. So does one that the walker is told to train.
OF_DOMAIN: dict[tuple[str, str], dict[str, Any]] = {
    ("laptop", "walker"): {
        "data": {"collect": SMALL_EXPLORER},
        "encoder": {"discount": 0.95},
        "tasks": {"discount": 0.95, "max_length": 100},
        "policy": {
            "updates": 20_000,
            "discount": 0.95,
            "learning_rate": 1e-3,
            "horizon": 3,
            "behaviour": 0.0,
            "way_back": True,
            "candidates": 64,
        },
    },
    ("laptop", "quadruped"): {"data": {"collect": SMALL_EXPLORER | {"explorer": "train"}}},
    ("laptop", "point_mass_maze"): {
        "data": {
            "episodes": 256,
            "collect": {
                "explorer": "train",
                "random_steps": 128_000,
                "steps_per_update": 96.0,
                "standing": 0.9,
            },
        },
        "infer": {"num_states": 20_000},
    },
}


class Preset(NamedTuple):
    """Named settings: an encoder with fields of its own, at any scale."""

    encoder: str
    fields: dict[str, Any]
    batch: int  # times the scale's encoder.batch


# Asked for in the place of an encoder's name. Tuned FB is what published runs of the field do.
PRESETS = {
    "fb_tuned": Preset(
        "fb",
        {
            "encoder": {
                "discount": 0.98, "mix_ratio": 0.5, "backward_norm": True, "actor_noise": 0.2,
            },
            "tasks": {"discount": 0.98},
            "policy": {"discount": 0.98},
        },
        batch=2,
    ),
}  # fmt: skip

# How the explorers that ship are trained (`experiments.explorers`).
SHIPPED: dict[str, Any] = {
    "explorer": "train",
    "num_envs": 32,
    "width": 128,
    "rnd_width": 128,
    "rnd_dim": 64,
    "batch": 128,
    "learning_rate": 3e-4,
    "random_steps": 8000,
    "steps_per_update": 8.0,
}


class StudySize(NamedTuple):
    """The size of a study at a scale, unless the study has its own."""

    domains: tuple[str, ...]
    encoders: tuple[str, ...]
    seeds: int
    collections: int = 0  # that the seeds are spread over; 0: one per seed


DOMAINS = ("cheetah", "walker", "quadruped")  # the paper's
ENCODERS = ("aenc", "trans", "lra_p", "lra_sr", "byol", "byol_gamma", "fb")
STUDY_SIZES = {
    "paper": StudySize(DOMAINS, ENCODERS, 5, collections=1),  # ExORL has one per domain
    "laptop": StudySize(("cheetah",), ENCODERS, 5),
    "smoke": StudySize(("cheetah",), ("fb",), 2, collections=1),
}


def choose_scale(scale: str = "auto") -> tuple[str, str]:
    """Return the scale to use and why: `auto` looks for an accelerator."""
    if scale not in (*SCALES, "auto"):
        raise ConfigError(unknown("scale", scale, [*SCALES, "auto"]))
    if scale != "auto":
        return scale, "as asked"
    backend = jax.default_backend()
    if backend == "cpu":
        return "laptop", "auto: JAX sees no accelerator"
    return "paper", f"auto: JAX runs on {backend}"


def explorer_recipe(scale: str) -> ConfigDict:
    """Return the exploring agent's fields at a scale; `shipped`: those of explorers that ship.

    Who explores is not a matter of scale here: shipped explorers, unless they are to be trained.
    """
    config = explorer_fields()
    if scale not in SCALES:
        config.update(SHIPPED)
        return config
    config.update(SCALES[scale].get("data", {}).get("collect", {}))
    config.explorer = "shipped"
    return config
