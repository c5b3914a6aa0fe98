"""Pack a source into a store: in parallel, in bounded memory, stopped and resumed at will.

Threads read, check and write a few episodes at a time, each to its own place in the files. A
journal tells which are safely on disk, so that the same call again goes on from there. The store
appears whole, by a rename, or not at all. Two processes that pack the same source take turns.
"""

import contextlib
import fcntl
import os
import shutil
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from zsrl_jax.data import store
from zsrl_jax.data.dataset import Dataset
from zsrl_jax.data.episode import STATES, Episode, Source, casts, checked
from zsrl_jax.data.journal import Files
from zsrl_jax.errors import DamageError, DataError


class Read(NamedTuple):
    """An episode that was read and checked, or its damage."""

    sums: dict[str, int]
    cast: str | None = None
    damage: DamageError | None = None


def pack(
    open_source: Callable[[Path], Source],
    folder: Path,
    on_bad: str = "error",
    progress: bool = True,
) -> None:
    """Pack a source into a store at `folder`; a source may use the folder it is opened with."""
    part = folder.with_name(folder.name + ".part")
    with _turn(part, folder) as mine:
        if not mine:
            return
        try:
            _fill(open_source(part), part, on_bad, progress)
        except DataError:  # the source must change, and then its store starts anew
            shutil.rmtree(part)
            raise
        old = folder.with_name(folder.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            os.replace(folder, old)
        os.replace(part, folder)
        _sync(folder.parent)
        shutil.rmtree(old, ignore_errors=True)


def _fill(source: Source, part: Path, on_bad: str, progress: bool) -> None:
    """Write all files of the store; with `skip` the damaged episodes are found before."""
    job = _Job(source, progress)
    good = list(range(len(source.names)))
    skipped: list[str] = []
    if on_bad == "skip":
        found = dict(job.each(good, job.check, "check"))
        good = [i for i in good if found[i].damage is None]
        skipped = [str(found[i].damage) for i in found if found[i].damage is not None]
    if not good:
        raise DataError(f"'{source.root}': no episode is whole, the first: {skipped[0]}")
    job.write(part, good, skipped)


@contextlib.contextmanager
def _turn(part: Path, folder: Path) -> Iterator[bool]:
    """Hold the folder in the making; false where another process made it while we waited.

    The folder itself is locked, so that no lock file is left behind: whoever waited for it finds
    it renamed to the finished store, or gone because the source was damaged.
    """
    while True:
        part.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_same(descriptor, part) or _is_same(descriptor, folder):
                yield _is_same(descriptor, part)
                return
        finally:
            os.close(descriptor)


class _Job:
    """The reading of one source: the first episode's widths, and what was seen already."""

    def __init__(self, source: Source, progress: bool):
        self.source, self.progress = source, progress
        self.like: dict[str, np.ndarray] = {}
        self.seen: dict[tuple[int, ...], int] = {}

    def read(self, index: int) -> tuple[Episode, Read]:
        """Read and check one episode, also against the first."""
        source, name = self.source, self.source.names[index]
        raw = source.read(index)
        cast = casts(raw, source.keys)
        episode = checked(name, raw, source.keys, source.lengths[index])
        found = {k: v for k, v in episode._asdict().items() if v is not None}
        for field, first in self.like.items():
            width = first.shape[1] if first.ndim == 2 else 1
            value = found.get(field)
            if value is None or value.ndim == 2 and value.shape[1] != width:
                wanted = f"{width} columns as in '{Path(source.names[0]).name}'"
                columns = "nothing" if value is None else f"{value.shape[1]}"
                raise DamageError(name, source.keys[field].name, wanted, columns)
        if not self.like:
            self.like = found
        return episode, Read({k: zlib.crc32(found[k].data) for k in self.like}, cast)

    def check(self, index: int) -> Read:
        """Read one episode for its damage alone."""
        try:
            return self.read(index)[1]
        except DamageError as damage:
            return Read({}, damage=damage)

    def each(self, indices: list[int], work: Callable[[int], Read], title: str):
        """Yield (index, read) in order, a few in flight; duplicates are found here."""
        workers = min(len(os.sched_getaffinity(0)), 16)
        todo, flying = iter(indices), deque[tuple[int, Future]]()
        with (
            ThreadPoolExecutor(workers) as pool,
            tqdm(total=len(indices), desc=title, unit="episode", disable=not self.progress) as bar,
        ):
            try:
                while True:
                    while len(flying) < 4 * workers and (i := next(todo, None)) is not None:
                        flying.append((i, pool.submit(work, i)))
                        if not self.like:  # the first alone: it says how wide the others are
                            flying[-1][1].exception()
                    if not flying:
                        return
                    index, future = flying.popleft()
                    yield index, self.once(index, future.result())
                    bar.update()
            finally:
                pool.shutdown(cancel_futures=True)

    def once(self, index: int, read: Read) -> Read:
        """Return what was read, or the damage that it is a copy of another episode."""
        mark = (read.sums.get("obs", -1), read.sums.get("action", -1), self.source.lengths[index])
        first = self.seen.setdefault(mark, index)
        if read.damage is not None or first == index:
            return read
        names = self.source.names
        damage = DamageError(
            names[index], None, "an episode of its own", f"a copy of {names[first]}"
        )
        return read._replace(damage=damage)

    def write(self, part: Path, good: list[int], skipped: list[str]) -> None:
        """Write the fields and the manifest of these episodes, from where the journal ends."""
        source, self.seen = self.source, {}
        first, _ = self.read(good[0])
        lengths = [source.lengths[i] for i in good]
        fields = {k: v for k, v in first._asdict().items() if v is not None}
        shapes = {
            k: (len(good), max(lengths) + (k in STATES), *v.shape[1:]) for k, v in fields.items()
        }
        plan = {
            "version": store.VERSION, "format": source.format, "label": source.label,
            "domain": source.domain,
            "files": store.stamps(source.root, source.files), "lengths": lengths,
            "names": [Path(source.names[i]).name for i in good], "skipped": skipped,
            "shapes": {k: [list(s), fields[k].dtype.str] for k, s in shapes.items()},
        }  # fmt: skip
        with Files(part, plan) as files:
            place = {i: j for j, i in enumerate(good)}

            def work(index: int) -> Read:
                episode, read = self.read(index)
                files.put(place[index], episode)
                return read

            done = files.done
            for j in range(len(done)):
                self.once(good[j], Read(done[j]["sums"]))
            for _, read in self.each(good[len(done) :], work, "pack"):
                if read.damage is not None:
                    raise read.damage
                files.note({"sums": read.sums, "cast": read.cast})
            files.finish(list(source.notes))


def _is_same(descriptor: int, folder: Path) -> bool:
    return folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat())


def read_all(source: Source, on_bad: str = "error", progress: bool = True) -> Dataset:
    """Read a source into memory, without a store."""
    job, kept, skipped = _Job(source, progress), {}, []

    def work(index: int) -> Read:
        try:
            kept[index], read = job.read(index)
        except DamageError as damage:
            return Read({}, damage=damage)
        return read

    casts: list[str] = []
    for index, read in job.each(list(range(len(source.names))), work, "read"):
        if read.damage is not None:
            kept.pop(index, None)
            skipped.append(str(read.damage))
            if on_bad == "error":
                raise read.damage
        elif read.cast:
            casts.append(read.cast)
    if not kept:
        raise DataError(f"'{source.root}': no episode is whole, the first: {skipped[0]}")
    notes = (*source.notes, *dict.fromkeys(casts))
    return Dataset.from_episodes(
        [kept[i] for i in sorted(kept)], source=f"{source.label or source.format}:{source.root}",
        notes=notes, skipped=tuple(skipped), domain=source.domain,
    )  # fmt: skip


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
