"""The range of every number of a config, in one table; `checks` refuses what lies outside.

A range is written as in mathematics: [0, 1) holds 0 but not 1. An encoder of your own may have a
table `RANGES` beside its `default_config`, from its own fields to ranges.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from zsrl_jax.encoders import ENCODERS
from zsrl_jax.errors import ConfigError


class Range(NamedTuple):
    """Numbers from low to high; `closed` says which of the two ends belong to it."""

    low: float
    high: float = math.inf
    closed: str = "[]"
    whole: bool = False  # no fractions

    def holds(self, value: Any) -> bool:
        """Tell whether a value is a finite number of this range; a list: all of its entries."""
        if isinstance(value, list | tuple):
            return len(value) > 0 and all(self.holds(entry) for entry in value)
        if not _is_number(value) or (self.whole and value != int(value)):
            return False
        above = value >= self.low if self.closed[0] == "[" else value > self.low
        below = value <= self.high if self.closed[1] == "]" else value < self.high
        return math.isfinite(value) and above and below

    def __str__(self) -> str:
        """Say in words what is expected."""
        kind = " (a whole number)" if self.whole else ""
        low = f"at least {self.low:g}" if self.closed[0] == "[" else f"above {self.low:g}"
        if math.isinf(self.high):
            return low + kind
        if self.closed == "[]":
            return f"{self.low:.10g} to {self.high:.10g}{kind}"
        high = f"at most {self.high:g}" if self.closed[1] == "]" else f"below {self.high:g}"
        return f"{low} and {high}{kind}"


COUNT, NATURAL = Range(1, whole=True), Range(0, whole=True)
SHARE, WEIGHT = Range(0, 1), Range(0)
SEED = Range(0, 2**31 - 1, whole=True)
RATE = Range(0, 1, "(]")
DISCOUNT = Range(0, 1, "[)")

RANGES: dict[str, Range] = {
    "seed": SEED,
    "seeds": COUNT,
    "log_every": COUNT,
    "checkpoint_every": COUNT,
    "devices.seed": NATURAL,
    "devices.data": COUNT,
    "data.max_episodes": NATURAL,
    "data.every_nth": COUNT,
    "data.subset_seed": Range(-1, SEED.high, whole=True),
    "data.device_gib": WEIGHT,
    "data.feed_updates": COUNT,
    "data.clip": Range(0, closed="(]"),
    "data.episodes": COUNT,
    "data.seed": Range(0, 3999, whole=True),  # starts use 32-bit seeds, a million for each of ours
    "data.collect.num_envs": COUNT,
    "data.collect.width": COUNT,
    "data.collect.rnd_dim": COUNT,
    "data.collect.rnd_width": COUNT,
    "data.collect.batch": COUNT,
    "data.collect.learning_rate": RATE,
    "data.collect.target_rate": RATE,
    "data.collect.discount": DISCOUNT,
    "data.collect.horizon": COUNT,
    "data.collect.noise": WEIGHT,
    "data.collect.noise_clip": WEIGHT,
    "data.collect.random_steps": NATURAL,
    "data.collect.steps_per_update": Range(0, closed="(]"),
    "data.collect.held": DISCOUNT,
    "data.collect.standing": SHARE,
    "encoder.dim": COUNT,
    "encoder.hidden": COUNT,
    "encoder.updates": COUNT,
    "encoder.batch": Range(2, whole=True),  # pairs of a batch are compared
    "encoder.learning_rate": RATE,
    "encoder.target_rate": SHARE,
    "encoder.discount": DISCOUNT,  # successor measures and geometric futures must be finite
    "encoder.orthonormality": WEIGHT,
    "encoder.width": Range(2, whole=True),  # half of it where streams join
    "encoder.mix_ratio": SHARE,
    "encoder.q_weight": WEIGHT,
    "encoder.noise": WEIGHT,
    "encoder.noise_clip": WEIGHT,
    "encoder.actor_noise": WEIGHT,
    "encoder.temperature": Range(0, closed="(]"),
    "encoder.horizon": COUNT,
    "encoder.expectile": Range(0, 1, "()"),
    "encoder.random_goals": SHARE,
    "tasks.discount": SHARE,
    "tasks.num_subtrajectories": COUNT,
    "tasks.behaviours": NATURAL,
    "tasks.min_length": COUNT,
    "tasks.max_length": NATURAL,
    "tasks.alpha": SHARE,
    "tasks.num_components": COUNT,
    "tasks.num_iters": COUNT,
    "tasks.moves": NATURAL,
    "tasks.tolerance": WEIGHT,
    "policy.updates": COUNT,
    "policy.num_tasks": COUNT,
    "policy.per_task": COUNT,
    "policy.width": Range(2, whole=True),
    "policy.learning_rate": RATE,
    "policy.target_rate": SHARE,
    "policy.discount": DISCOUNT,
    "policy.noise": WEIGHT,
    "policy.noise_clip": WEIGHT,
    "policy.policy_delay": COUNT,
    "policy.candidates": NATURAL,
    "policy.ensemble": COUNT,
    "policy.behaviour": WEIGHT,
    "policy.successor": WEIGHT,
    "policy.actor_average": SHARE,
    "policy.horizon": COUNT,
    "policy.pessimism": SHARE,
    "policy.feature_gib": WEIGHT,
    "infer.num_states": Range(10, whole=True),
    "infer.seed": SEED,
    "infer.behaviours": NATURAL,
    "infer.nearest": NATURAL,
    "evaluate.episodes": COUNT,
    "evaluate.seed": SEED,
    "evaluate.every": NATURAL,
}


def numbers(section: ConfigDict | Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return every field of a config that is a number or a list of numbers, with its path."""
    for path, value in flat(section, prefix).items():
        if _is_number(value) or (isinstance(value, list | tuple) and any(map(_is_number, value))):
            yield path, value


def flat(section: ConfigDict | Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return every field of a config by its path."""
    found: dict[str, Any] = {}
    for name, value in section.items():
        inner = isinstance(value, ConfigDict | Mapping)
        found |= flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_ranges(
    config: ConfigDict | Mapping[str, Any], prefix: str = "", told: str = "config."
) -> None:
    """Refuse a config with a number outside of its range.

    `prefix` is that of the section that is given, such as `data.collect.`, and `told` how its
    fields are called in the message.
    """
    for path, allowed in (RANGES | _ranges_of_encoder(config)).items():
        own = path.removeprefix(prefix)
        value = _look_up(config, own) if path.startswith(prefix) else None
        if value is not None and not allowed.holds(value):
            raise ConfigError(f"{told}{own} is {value}: expected {allowed}")


def _look_up(config: Any, path: str) -> Any:
    """Return a field's value; None if the config has no such field."""
    for name in path.split("."):
        if name not in config:
            return None
        config = config[name]
    return config


def _ranges_of_encoder(config: ConfigDict | Mapping[str, Any]) -> dict[str, Range]:
    """Return the ranges that an encoder of the user's own has for its own fields."""
    own = getattr(ENCODERS.get(_look_up(config, "encoder.name")), "RANGES", {})
    return {f"encoder.{field}": Range(*allowed) for field, allowed in own.items()}
