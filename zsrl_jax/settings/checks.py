"""Checks of a config before anything runs: names that exist, numbers in their ranges."""

import math
from collections.abc import Iterable

import jax
from ml_collections import ConfigDict

from zsrl_jax.data import FORMATS
from zsrl_jax.devices import mesh, precision, processes
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import ConfigError, TaskError, unknown
from zsrl_jax.settings import fields
from zsrl_jax.settings.names import OTHER
from zsrl_jax.settings.ranges import check_ranges, flat
from zsrl_jax.tasks import SAMPLERS

NAMES: dict[str, Iterable[str]] = {
    "domain": DOMAINS,
    "encoder.name": ENCODERS,
    "tasks.sampler": SAMPLERS,
}
CHOICES: dict[str, Iterable[str]] = {
    "precision": precision.NAMES,
    "data.source": ("auto", "exorl", "collect"),
    "data.collect.explorer": ("shipped", "train"),
    "data.format": ("auto", *FORMATS, "store"),
    "data.on_bad": ("error", "skip"),
    "data.normalize": ("none", "standard"),
    "encoder.radius": ("sqrt_d", "unit"),
    "policy.kind": ("td3", "own"),
    "policy.head": ("successor", "scalar"),
    "evaluate.beside": ("auto", "always", "never"),
}


def _field(config: ConfigDict, path: str):
    for name in path.split("."):
        config = config[name]
    return config


def _present(config: ConfigDict, paths: Iterable[str]) -> list[str]:
    """Return the paths whose section the config has: an oracle has neither encoder nor tasks."""
    return [path for path in paths if path.split(".")[0] in config]


def check(config: ConfigDict) -> None:
    """Refuse a config with unknown names or with values that make no sense."""
    _check_complete(config)
    for path in _present(config, NAMES):
        name, known = _field(config, path), NAMES[path]
        if name not in known and (path, name) != ("domain", OTHER):
            kind = {"encoder.name": "encoder", "tasks.sampler": "sampler"}.get(path, path)
            raise TaskError(unknown(kind, name, known))
    for path in _present(config, CHOICES):
        if (name := _field(config, path)) not in (known := CHOICES[path]):
            raise ConfigError(unknown(f"config.{path}", name, known))
    check_ranges(config)
    if config.evaluate.every % config.log_every:
        raise ConfigError(
            f"config.evaluate.every is {config.evaluate.every}: expected a multiple of "
            f"config.log_every ({config.log_every})"
        )
    if "oracle" in config:
        _check_oracle(config)
    else:
        _check_cell(config)
    mesh.shape_of(config, jax.device_count())


def _check_complete(config: ConfigDict) -> None:
    """Refuse a config that lacks fields, such as one that was put together by hand."""
    has_all = all(name in config for name in ("domain", "policy"))
    default = fields.defaults_of(config) if has_all else fields.get_config(OTHER, "fb", "btd")
    gone = fields.ABSENT if "oracle" in config else ()
    for path in flat(default):
        if path.split(".")[0] not in gone and not _has(config, path):
            raise ConfigError(
                f"the config has no field {path}: expected one made by zsrl_jax.config(...)"
            )


def _has(config: ConfigDict, path: str) -> bool:
    for name in path.split("."):
        if not isinstance(config, ConfigDict) or name not in config:
            return False
        config = config[name]
    return True


def agree(config: ConfigDict) -> None:
    """Refuse a run whose processes have different configs; all must call it."""
    processes.agree(
        config.to_json_best_effort(),
        ConfigError(
            "the processes of the run have different settings: expected the same command in all; "
            "name the scale if not all of them see an accelerator"
        ),
    )


def _check_oracle(config: ConfigDict) -> None:
    if config.domain not in DOMAINS:
        raise TaskError(unknown("domain of an oracle", config.domain, DOMAINS))
    known = DOMAINS[config.domain].tasks
    for task in config.oracle.tasks:
        if task not in known:
            raise TaskError(unknown(f"{config.domain} task", task, known))
    if (config.policy.kind, config.policy.head) != ("td3", "scalar"):
        raise ConfigError(
            f"config.policy.kind is {config.policy.kind} and head {config.policy.head}: an oracle "
            "has neither z nor encoder, expected td3 and scalar"
        )


def _check_cell(config: ConfigDict) -> None:
    own = getattr(ENCODERS[config.encoder.name], "CHOICES", {})
    for field, known in own.items():
        if (name := config.encoder[field]) not in known:
            raise ConfigError(unknown(f"config.encoder.{field}", name, known))
    if config.policy.kind == "own" and not hasattr(ENCODERS[config.encoder.name], "own_policy"):
        able = [name for name, module in ENCODERS.items() if hasattr(module, "own_policy")]
        raise ConfigError(
            f"config.policy.kind is own, but the encoder {config.encoder.name} trains no policy of "
            f"its own: expected td3, or the encoder {', '.join(able)}"
        )
    if config.domain == OTHER and config.evaluate.every:
        raise ConfigError("config.evaluate.every needs a domain with a simulator: expected 0")
    _check_ridge(config.infer.ridge)


def _check_ridge(ridge: float | str) -> None:
    try:
        good = ridge == "auto" or 0 <= float(ridge) < math.inf
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ConfigError(f"config.infer.ridge is '{ridge}': expected auto or a number from 0 up")
