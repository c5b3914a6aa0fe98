"""May a run go on in this folder? Only with the facts that its saves were made with, or by force.

A forced run keeps the states it finds and works on with the config it is given; every save
remembers which fields were other ones before, and so do the results.
"""

from pathlib import Path
from typing import Any

from zsrl_jax import checkpoint, saves
from zsrl_jax.divergence import Failure
from zsrl_jax.errors import ConfigError, DataError
from zsrl_jax.facts import FORMAT, STAGES, differing, tell
from zsrl_jax.stage import Run


def check(run: Run, force: bool = False) -> None:
    """Refuse a folder whose saves have other facts, naming each; with `force` take it over."""
    found = {stage: _differing(run, stage) for stage in STAGES[1:] if stage in run.config}
    fields = {name: pair for part in found.values() for name, pair in part.items()}
    if not fields:
        return
    if not force:
        raise ConfigError(
            f"'{run.workdir}' holds a run with other settings: {tell(fields)}; name another "
            "--workdir, or go on all the same with --force (which the results will say)"
        )
    for stage, part in found.items():
        if part:
            _accept(run, stage, part)


def _differing(run: Run, stage: str) -> dict[str, list[Any]]:
    folder = run.workdir / stage
    if (folder / checkpoint.MANIFEST).exists():  # the layout before saves had a folder a step
        return {"format": [1, FORMAT]}
    save = saves.newest(folder, whole=False)
    if save.folder is None:
        return {}
    fields = differing(save.meta["facts"], run.facts(stage))
    updates = run.config[stage].get("updates")
    if updates is not None and save.step > updates:
        fields[f"{stage}.updates"] = [save.step, updates]
    return fields


def _accept(run: Run, stage: str, fields: dict[str, list[Any]]) -> None:
    """Write into a stage's saves that they are taken over, and how they differ."""
    folder = run.workdir / stage
    if (folder / checkpoint.MANIFEST).exists():
        checkpoint.discard(folder)  # the older layout cannot be read: this stage starts anew
        return
    for step, place in saves.steps(folder):
        try:
            manifest = checkpoint.read_manifest(place)
        except DataError:
            continue
        meta = manifest["meta"]
        note = {"stage": stage, "step": step, "fields": fields}
        meta |= {"facts": run.facts(stage), "forced": [*meta.get("forced", []), note]}
        checkpoint.write_manifest(place, meta, manifest["files"])


def forced(workdir: Path) -> list[dict[str, Any]]:
    """Return what was forced in a run, stage by stage."""
    metas = [saves.newest(workdir / stage, whole=False).meta for stage in STAGES[1:]]
    return [note for meta in metas for note in meta.get("forced", [])]


def failed(workdir: Path) -> dict[int, Failure]:
    """Return the seeds of a run that are not finite any more, by their place in it."""
    metas = [saves.newest(workdir / stage, whole=False).meta for stage in STAGES[1:]]
    return {int(i): Failure(**f) for meta in metas for i, f in meta.get("failed", {}).items()}
