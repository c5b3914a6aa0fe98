"""All that decides a stage's result, as named facts: the data, the config so far, the seeds.

A save carries them. A state at update t does not depend on how many updates are still to come, so a
stage's own `updates` is no fact of it, unless its learning rate is annealed towards the last one.
"""

import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from zsrl_jax.precision import EXACT

FORMAT = 2  # raised when the mathematics of a stage or its files change
STAGES = ("data", "encoder", "tasks", "policy")


def facts(config: ConfigDict, stage: str, fingerprint: str) -> dict[str, Any]:
    """Return what decides a stage: name -> value, as JSON gives it back."""
    found: dict[str, Any] = {"format": FORMAT, "data (its checksum)": fingerprint}
    found |= {name: config[name] for name in ("domain", "seed", "seeds")}
    found |= {f"data.{name}": config.data[name] for name in ("normalize", "clip")}
    if (products := config.get("precision", EXACT)) != EXACT:  # saves of before do not have it
        found["precision"] = products
    for section in (*STAGES[1 : STAGES.index(stage) + 1], "oracle"):
        if section in config:  # an oracle has neither encoder nor tasks
            found |= _flat(section, config[section].to_dict())
    if not config[stage].get("anneal", False):
        found.pop(f"{stage}.updates", None)
    return json.loads(json.dumps(found, default=str))


def _flat(prefix: str, section: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in section.items():
        path = f"{prefix}.{name}"
        found |= _flat(path, value) if isinstance(value, Mapping) else {path: value}
    return found


def differing(saved: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the facts that differ: name -> [what was saved, what is asked for]."""
    names = [*now, *(name for name in saved if name not in now)]
    pairs = {name: [saved.get(name), now.get(name)] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def tell(fields: Mapping[str, list[Any]]) -> str:
    """Say in words which facts differ, and how."""
    words = {name: ["not there" if x is None else x for x in pair] for name, pair in fields.items()}
    return "; ".join(f"{name} was {old}, now {new}" for name, (old, new) in words.items())
