"""May a run go on in this folder? Only with the facts that its saves were made with, or by force.

A forced run keeps the states it finds and works on with the config it is given; every save
remembers which fields were other ones before, and so do the results.
"""

from pathlib import Path
from typing import Any

from zsrl_jax import checkpoint, saves, takeover
from zsrl_jax.divergence import Failure
from zsrl_jax.errors import ConfigError
from zsrl_jax.facts import STAGES, tell
from zsrl_jax.stage import Run


def check(run: Run, force: bool = False) -> None:
    """Refuse a folder whose saves have other facts, naming each; with `force` let them be used."""
    stages = [stage for stage in STAGES[1:] if stage in run.config]
    found = [takeover.changed(*run.asked(stage)) for stage in stages]
    fields = {name: pair for part in found for name, pair in part.items()}
    if not fields:
        return
    if not force:
        raise ConfigError(
            f"'{run.workdir}' holds a run with other settings: {tell(fields)}; name another "
            "--workdir, or go on all the same with --force (which the results will say)"
        )
    for stage in stages:
        if (run.workdir / stage / checkpoint.MANIFEST).exists():
            checkpoint.discard(run.workdir / stage)  # the older layout cannot be read: start anew


def forced(workdir: Path) -> list[dict[str, Any]]:
    """Return what was forced in a run, stage by stage."""
    metas = [saves.newest(workdir / stage, whole=False).meta for stage in STAGES[1:]]
    return [note for meta in metas for note in meta.get("forced", [])]


def failed(workdir: Path) -> dict[int, Failure]:
    """Return the seeds of a run that are not finite any more, by their place in it."""
    metas = [saves.newest(workdir / stage, whole=False).meta for stage in STAGES[1:]]
    return {int(i): Failure(**f) for meta in metas for i, f in meta.get("failed", {}).items()}
