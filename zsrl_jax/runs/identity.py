"""May this run go on in this folder? Only with the settings of the saves in it, or by force.

The facts of a stage are all settings that decide its result: the data's checksum, the config up to
this stage, the seeds. Every save carries them. A state at update t does not depend on how many
updates follow, so a stage's own `updates` is not one of its facts, unless its learning rate is
annealed towards the last update. A field that did not exist when a save was made counts as its
default.

A forced run keeps the states it finds and goes on with the config it is given. Every save records
which fields were different before, and so do the results. That record is written after every state
that the run keeps has been read with the new config's shapes: a run whose shapes do not fit changes
no save.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from zsrl_jax.devices.precision import EXACT
from zsrl_jax.errors import ConfigError, DataError
from zsrl_jax.runs import checkpoint, step_saves
from zsrl_jax.settings import fields

FORMAT = 2  # raised when the mathematics of a stage or its files change
STAGES = ("data", "encoder", "tasks", "policy")
CHECKSUM = "data (its checksum)"


def facts(config: ConfigDict, stage: str, fingerprint: str) -> dict[str, Any]:
    """Return the settings that decide a stage's result: name -> value, as JSON returns them."""
    found: dict[str, Any] = {"format": FORMAT, CHECKSUM: fingerprint}
    found |= {name: config[name] for name in ("domain", "seed", "seeds")}
    found |= {f"data.{name}": config.data[name] for name in ("normalize", "clip")}
    if (products := config.get("precision", EXACT)) != EXACT:
        found["precision"] = products
    for section in (*STAGES[1 : STAGES.index(stage) + 1], "oracle"):
        if section in config:  # an oracle has neither encoder nor tasks
            found |= flat(config[section].to_dict(), f"{section}.")
    if not config[stage].get("anneal", False):
        found.pop(f"{stage}.updates", None)
    return json.loads(json.dumps(found, default=str))


def flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return a tree's leaves by their paths, as `policy.updates`."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{above}{name}"
        found |= flat(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return found


def differing(
    saved: Mapping[str, Any], now: Mapping[str, Any], default: Mapping[str, Any] | None = None
) -> dict[str, list[Any]]:
    """Return the facts that differ: name -> [what was saved, what is asked for].

    A save made before a field existed counts as having that field's default.
    """
    known = {**(default or {}), **saved}
    names = [*now, *(name for name in saved if name not in now)]
    pairs = {name: [known.get(name), now.get(name)] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def tell(differences: Mapping[str, list[Any]]) -> str:
    """Return in words which facts differ, and how."""
    words = {
        name: ["not there" if value is None else value for value in pair]
        for name, pair in differences.items()
    }
    return "; ".join(f"{name} was {old}, now {new}" for name, (old, new) in words.items())


class Asked:
    """What a run asks of the saves in its folder, stage by stage."""

    def __init__(self, workdir: Path, config: ConfigDict, fingerprint: str | None):
        self.workdir, self.config, self.fingerprint = workdir, config, fingerprint
        self.stages = [stage for stage in STAGES[1:] if stage in config]

    def facts(self, stage: str) -> dict[str, Any]:
        """Return all that decides a stage's result."""
        return facts(self.config, stage, self.fingerprint or "")

    def changed(self, stage: str) -> dict[str, list[Any]]:
        """Return how the newest save of a stage differs: name -> [what was saved, what is asked].

        Before the data is known (`fingerprint` None) its checksum is not compared.
        """
        save = step_saves.newest(self.workdir / stage, whole=False)
        if save.folder is None:
            return {}
        found = differing(save.meta["facts"], self.facts(stage), self._defaults(stage))
        if self.fingerprint is None:
            found.pop(CHECKSUM, None)
        updates = self.config[stage].get("updates")
        if updates is not None and save.step > updates:
            found[f"{stage}.updates"] = [save.step, updates]
        return found

    def check(self, force: bool = False) -> None:
        """Refuse a folder whose saves have other facts, and name each, unless forced."""
        found = [self.changed(stage) for stage in self.stages]
        differences = {name: pair for part in found for name, pair in part.items()}
        if differences and not force:
            raise ConfigError(
                f"'{self.workdir}' holds a run with other settings: {tell(differences)}; name "
                "another --workdir, or go on anyway with --force (the results will record it)"
            )

    def accept(self) -> None:
        """Write this run's facts, and how they differ, into the saves: they are now this run's."""
        for stage in self.stages:
            differences = self.changed(stage)
            for step, place in step_saves.steps(self.workdir / stage) if differences else []:
                try:
                    manifest = checkpoint.read_manifest(place)
                except DataError:
                    continue
                meta = manifest["meta"]
                note = {"stage": stage, "step": step, "fields": differences}
                meta |= {"facts": self.facts(stage), "forced": [*meta.get("forced", []), note]}
                checkpoint.write_manifest(place, meta, manifest["files"])

    def _defaults(self, stage: str) -> dict[str, Any]:
        found = facts(fields.defaults_of(self.config), stage, self.fingerprint or "")
        return found | {"oracle.center": False}  # what oracles did before they had that field


def forced(workdir: Path) -> list[dict[str, Any]]:
    """Return which settings were forced in a run, stage by stage."""
    metas = [step_saves.newest(workdir / stage, whole=False).meta for stage in STAGES[1:]]
    return [note for meta in metas for note in meta.get("forced", [])]
