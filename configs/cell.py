"""Any cell of the study by name: configs/cell.py:DOMAIN,ENCODER,SAMPLER[,SCALE].

    python -m experiments.run --config=configs/cell.py:cheetah,fb,uniform,laptop

SCALE is auto (default: paper where JAX sees an accelerator, laptop on a CPU), paper, laptop, or
smoke (under a minute, for tests). What a run takes at laptop scale stands in the named runs beside
this file, what studies take at every scale in docs/experiments.md, updates in docs/performance.md.
"""

from collections.abc import Iterable

from ml_collections import ConfigDict

from configs import base
from zsrl_jax import DOMAINS, ENCODERS, SAMPLERS, explore
from zsrl_jax.errors import ConfigError, TaskError, unknown
from zsrl_jax.scale import choose_scale
from zsrl_jax.settings import OTHER

SCALES: dict[str, dict] = {
    "paper": {},
    "laptop": {
        "seeds": 1,
        "log_every": 250,
        "checkpoint_every": 5000,
        "data": {
            "normalize": "standard",
            "episodes": 512,
            "collect": explore.recipe("laptop"),
        },
        "encoder": {
            "updates": 15_000,
            "batch": 512,
            "hidden": (128, 128, 128),
            "learning_rate": 3e-4,
        },
        "policy": {
            "updates": 20_000,
            "num_tasks": 32,
            "per_task": 16,
            "width": 128,
            "learning_rate": 3e-4,
            "head_norm": True,
            "behaviour": 0.1,
            "successor": 1.0,
            "actor_average": 0.001,
            "anneal": True,
        },
        "infer": {"nearest": 100},
    },
    "smoke": {
        "seeds": 1,
        "log_every": 20,
        "checkpoint_every": 40,
        "data": {
            "normalize": "standard",
            "episodes": 4,
            "collect": explore.recipe("smoke"),
        },
        "encoder": {"updates": 60, "batch": 64, "hidden": (32, 32), "dim": 8},
        "tasks": {"num_subtrajectories": 500, "num_components": 4, "num_iters": 20},
        "policy": {"updates": 60, "num_tasks": 8, "per_task": 8, "width": 32},
        "infer": {"num_states": 1000},
        "evaluate": {"episodes": 2},
    },
}

DEVIATING: dict[tuple[str, str], dict] = {  # (scale, encoder): fields that no other encoder has
    ("laptop", "fb"): {"encoder": {"width": 128}},
    ("smoke", "fb"): {"encoder": {"width": 32}},
}


def get_cell(domain: str, encoder: str, sampler: str, scale: str = "auto") -> ConfigDict:
    """Return the config of one cell at one scale."""
    known: dict[str, Iterable] = {
        "domain": [*DOMAINS, OTHER],
        "encoder": ENCODERS,
        "sampler": SAMPLERS,
    }
    for (kind, names), name in zip(known.items(), (domain, encoder, sampler), strict=True):
        if name not in names:
            raise TaskError(unknown(kind, name, names))
    chosen, reason = choose_scale(scale)
    config = base.get_config(domain, encoder, sampler).lock()  # no table can add a field
    for table in (SCALES[chosen], DEVIATING.get((chosen, encoder), {})):
        config.update(table)
    config.scale, config.scale_reason = chosen, reason
    return config


def get_config(arg: str = "") -> ConfigDict:
    """Read DOMAIN,ENCODER,SAMPLER[,SCALE]."""
    parts = [part.strip() for part in arg.split(",")] if arg else []
    if len(parts) not in (3, 4):
        raise ConfigError(
            f"configs/cell.py:{arg} has {len(parts)} parts: expected "
            "configs/cell.py:domain,encoder,sampler[,scale], such as :cheetah,fb,btd,smoke"
        )
    return get_cell(*parts)
