"""Saves of other facts than a run's: which differ, and the mark of a run that took them over.

The mark is made once every state that a run keeps has been read with the new config's shapes: a run
whose shapes do not fit leaves all saves as it found them.
"""

from pathlib import Path
from typing import Any

from zsrl_jax import checkpoint, saves
from zsrl_jax.errors import DataError
from zsrl_jax.facts import FORMAT, differing


def changed(folder: Path, facts: dict[str, Any], updates: int | None) -> dict[str, list[Any]]:
    """Return how the newest save of a stage differs: name -> [what was saved, what is asked]."""
    if (folder / checkpoint.MANIFEST).exists():  # the layout before saves had a folder a step
        return {"format": [1, FORMAT]}
    save = saves.newest(folder, whole=False)
    if save.folder is None:
        return {}
    fields = differing(save.meta["facts"], facts)
    if updates is not None and save.step > updates:
        fields[f"{folder.name}.updates"] = [save.step, updates]
    return fields


def accept(folder: Path, facts: dict[str, Any], updates: int | None) -> None:
    """Write into a stage's saves how they differ, if they do."""
    fields = changed(folder, facts, updates)
    for step, place in saves.steps(folder) if fields else []:
        try:
            manifest = checkpoint.read_manifest(place)
        except DataError:
            continue
        meta = manifest["meta"]
        note = {"stage": folder.name, "step": step, "fields": fields}
        meta |= {"facts": facts, "forced": [*meta.get("forced", []), note]}
        checkpoint.write_manifest(place, meta, manifest["files"])
