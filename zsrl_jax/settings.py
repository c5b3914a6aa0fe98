"""What a config may say: names that exist, numbers that make sense; told before anything runs."""

from collections.abc import Iterable

from ml_collections import ConfigDict

from zsrl_jax.data import FORMATS
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import ConfigError, TaskError, unknown
from zsrl_jax.tasks import SAMPLERS

OTHER = "other"  # the domain of data whose robot the project does not know
NAMES: dict[str, Iterable[str]] = {
    "domain": DOMAINS,
    "encoder.name": ENCODERS,
    "tasks.sampler": SAMPLERS,
}
CHOICES: dict[str, Iterable[str]] = {
    "data.source": ("auto", "exorl", "collect"),
    "data.format": ("auto", *FORMATS, "store"),
    "data.on_bad": ("error", "skip"),
    "data.normalize": ("none", "standard"),
    "encoder.radius": ("sqrt_d", "unit"),
    "policy.head": ("successor", "scalar"),
}
LEAST = {
    "seeds": 1,
    "log_every": 1,
    "checkpoint_every": 1,
    "data.episodes": 1,
    "data.max_episodes": 0,
    "data.every_nth": 1,
    "data.subset_seed": -1,
    "encoder.dim": 1,
    "encoder.batch": 2,
    "encoder.discount": 0,
    "tasks.num_subtrajectories": 1,
    "tasks.min_length": 1,
    "tasks.num_components": 1,
    "policy.num_tasks": 1,
    "policy.per_task": 1,
    "policy.policy_delay": 1,
    "infer.num_states": 10,
    "evaluate.episodes": 1,
    "evaluate.every": 0,
}


def _field(config: ConfigDict, path: str):
    for name in path.split("."):
        config = config[name]
    return config


def check(config: ConfigDict) -> None:
    """Refuse a config that names what does not exist or asks for what makes no sense."""
    for path, known in NAMES.items():
        if (name := _field(config, path)) not in known and (path, name) != ("domain", OTHER):
            kind = {"encoder.name": "encoder", "tasks.sampler": "sampler"}.get(path, path)
            raise TaskError(unknown(kind, name, known))
    own = getattr(ENCODERS[config.encoder.name], "CHOICES", {})
    choices = CHOICES | {f"encoder.{field}": known for field, known in own.items()}
    for path, known in choices.items():
        if (name := _field(config, path)) not in known:
            raise ConfigError(unknown(f"config.{path}", name, known))
    for path, least in LEAST.items():
        if (value := _field(config, path)) < least:
            raise ConfigError(f"config.{path} is {value}: expected at least {least}")
    if not 0 <= config.tasks.alpha <= 1:
        raise ConfigError(f"config.tasks.alpha is {config.tasks.alpha}: expected one from 0 to 1")
    if config.encoder.discount >= 1:  # successor measures and geometric futures need an end
        raise ConfigError(f"config.encoder.discount is {config.encoder.discount}: expected below 1")
    if config.evaluate.every % config.log_every:
        raise ConfigError(
            f"config.evaluate.every is {config.evaluate.every}: expected a multiple of "
            f"config.log_every ({config.log_every})"
        )
    _check_ridge(config.infer.ridge)


def _check_ridge(ridge: float | str) -> None:
    try:
        good = ridge == "auto" or float(ridge) >= 0
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"config.infer.ridge is '{ridge}': expected auto or a number from 0 up")
