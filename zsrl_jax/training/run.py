"""A run while it works: its folder is locked, its saves and data fit its config, its log is open.

What may refuse a run is looked at here, where possible before data is collected. The fields of the
config were checked before (`settings.checks`), by whoever took the config in.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from zsrl_jax.data import Dataset
from zsrl_jax.devices import compile_cache, mesh, processes, signals
from zsrl_jax.errors import ConfigError, DataError
from zsrl_jax.files import atomic, lock
from zsrl_jax.runs import provenance
from zsrl_jax.runs.identity import STAGES, Asked
from zsrl_jax.seeds import seed_keys
from zsrl_jax.settings import checks
from zsrl_jax.training import metrics
from zsrl_jax.training.data_source import as_asked, open_data
from zsrl_jax.types import Failure


class Run(NamedTuple):
    """What every stage needs to know about its run."""

    config: ConfigDict
    workdir: Path
    log: metrics.Log
    keys: jax.Array
    seconds: dict[str, float]
    fingerprint: str  # of the data
    quiet: bool  # no bars
    failed: dict[int, Failure]  # by index of the seed in the run
    mesh: Mesh | None = None  # more devices than one

    def over_seeds(self, function: Callable, in_axes: tuple, **how: Any) -> Callable:
        """Compile a function of one seed for all seeds of this run, on all of its devices."""
        return mesh.over_seeds(function, in_axes, self.mesh, **how)

    def local(self, tree: Any) -> Any:
        """Bring a tree from the run's devices to the first device of this process."""
        return mesh.local(tree, self.mesh)

    @property
    def asked(self) -> Asked:
        """Return what this run asks of the saves in its folder."""
        return Asked(self.workdir, self.config, self.fingerprint)

    def fail(self, place: int, stage: str, step: int, quantity: str, kept: int) -> None:
        """Give up a seed, and report where it stopped being finite and which state is kept."""
        if place not in self.failed:
            tasks = len(self.keys) // self.config.seeds  # an oracle has a policy per task
            told = f"{quantity} of task {place % tasks}" if tasks > 1 else quantity
            failure = Failure(self.config.seed + place // tasks, stage, step, told, kept)
            self.failed[place] = failure
            if processes.is_first():
                print(f"\n{failure}", file=sys.stderr)

    def all_failed(self) -> bool:
        """Tell whether no seed is left."""
        return len(self.failed) == len(self.keys)

    def mark_saves(self) -> None:
        """Mark saves of other settings as this run's, once all that it keeps has been read."""
        if processes.is_first():
            self.asked.accept()

    def forget_after(self, stage: str) -> None:
        """Delete what an earlier run built on this stage, because it now trains on."""
        if not processes.is_first():
            return
        for name in (*STAGES[STAGES.index(stage) + 1 :], "agent", "results.json"):
            atomic.discard(self.workdir / name)


@contextlib.contextmanager
def running(
    config: ConfigDict,
    dataset: Dataset | None,
    workdir: Path,
    quiet: bool = False,
    force: bool = False,
) -> Iterator[tuple[Run, Dataset]]:
    """Lock a run's folder, open its data and log, and refuse what cannot work."""
    checks.agree(config)
    _refuse_pattern(workdir)
    compile_cache.keep()
    quiet = quiet or not processes.is_first()
    seconds: dict[str, float] = {}
    with signals.caught(), processes.leading(lock.held(workdir)):
        processes.first(lambda: _check_folder(config, workdir, force))
        if dataset is None:
            start = time.monotonic()
            dataset = processes.in_turn(lambda: open_data(config, quiet))
            seconds["data"] = time.monotonic() - start
            if not quiet:
                print(f"data: {dataset}")
        dataset = as_asked(config, dataset)
        _check_data(config, dataset)
        mark, devices = dataset.fingerprint(), mesh.make(config)
        processes.agree(
            mark, DataError("the processes read different data: all must see the same files")
        )
        if not quiet and jax.device_count() > 1:
            print(mesh.describe(devices))
        log = metrics.Log(workdir, silent=not processes.is_first())
        keys = seed_keys(config.seed, config.seeds)
        run = Run(config, workdir, log, keys, seconds, mark, quiet, {}, devices)
        processes.first(lambda: run.asked.check(force))
        processes.first(lambda: provenance.write(workdir, config, dataset, mark))
        try:
            yield run, dataset
            run.mark_saves()
        finally:
            log.close()


def _refuse_pattern(workdir: Path) -> None:
    """Refuse a folder whose saves Orbax could not read: it takes a name as a pattern of names."""
    place = str(workdir.absolute())
    if found := sorted(set("[]*?") & set(place)):
        raise ConfigError(
            f"run folder '{place}' has {' and '.join(found)} in its name, which the checkpoint "
            "library takes for a pattern: name another --workdir"
        )


def _check_folder(config: ConfigDict, workdir: Path, force: bool) -> None:
    """Refuse a folder that cannot be written, or that holds a run with other settings."""
    atomic.refuse_unwritable(workdir, *(workdir / name for name in (*STAGES, "agent")))
    Asked(workdir, config, None).check(force)


def _check_data(config: ConfigDict, dataset: Dataset) -> None:
    """Refuse data that does not fit the config."""
    if "oracle" in config and dataset.physics is None:
        raise DataError(
            f"the dataset {dataset.source} has no physics, from which an oracle's rewards are "
            "computed: use data with physics, such as ExORL's or that of experiments.collect"
        )
