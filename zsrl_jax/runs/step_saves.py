"""The saves of one stage: folders step_00005000; the newest two are kept, the newest good one used.

A folder that is damaged, empty or half copied is reported by name and skipped. A folder with the
suffix of an unfinished save is ignored. Good saves are kept until there are two newer good ones.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

from zsrl_jax.errors import DataError
from zsrl_jax.files import atomic
from zsrl_jax.runs import checkpoint

NAME = re.compile(r"step_(\d{8,})")
KEPT = 2


class Save(NamedTuple):
    """A good save, or none (folder None), and what is wrong with the newer ones."""

    folder: Path | None
    step: int
    meta: dict[str, Any]
    passed: tuple[str, ...]


def step_folder(stage: Path, step: int) -> Path:
    """Return the folder for the save of a step."""
    return stage / f"step_{step:08d}"


def steps(stage: Path) -> list[tuple[int, Path]]:
    """List the saves of a stage, good or not, newest first."""
    if not stage.is_dir():
        return []
    for file in sorted(stage.glob(f"*{atomic.OLD}")):
        atomic.take_back(file.with_suffix(""), checkpoint.MANIFEST)
    found = [(NAME.fullmatch(f.name), f) for f in stage.iterdir()]
    return sorted(((int(m[1]), f) for m, f in found if m), reverse=True)


def newest(stage: Path, whole: bool = True) -> Save:
    """Find the newest good save: by all its files, or (not `whole`) by its manifest alone."""
    passed: list[str] = []
    for step, folder in steps(stage):
        try:
            meta = checkpoint.verify(folder) if whole else _meta(folder)
            if meta.get("step") == step:
                return Save(folder, step, meta, tuple(passed))
            passed.append(f"checkpoint '{folder}' is damaged: its step is not that of its name")
        except DataError as error:
            passed.append(str(error))
    return Save(None, 0, {}, tuple(passed))


def _meta(folder: Path) -> dict[str, Any]:
    return checkpoint.read_manifest(folder)["meta"]


def write(stage: Path, step: int, tree: Any, meta: dict[str, Any], good: list[int]) -> list[int]:
    """Save a step and delete all but the newest good ones; take and return the good steps."""
    for left in stage.glob(f"*{atomic.PART}"):
        atomic.discard(left)
    checkpoint.save(step_folder(stage, step), tree, {**meta, "step": step})
    kept = sorted({*good, step})[-KEPT:]
    for old, folder in steps(stage):
        if old not in kept:
            atomic.discard(folder)
    return kept
