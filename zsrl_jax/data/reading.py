"""Read a source's episodes: in parallel, in order, each checked by itself and against the others.

All episodes must have the same fields and widths. `find_damage` reads all of them first and takes
the fields and widths of most episodes as right, so that one odd file is left out. Otherwise those
of the first episode are right; of two episodes, the one that lacks a field is the damaged one.
"""

import os
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from zsrl_jax.data.dataset import Dataset
from zsrl_jax.data.episode import Episode, Source, casts, checked
from zsrl_jax.errors import DamageError, DataError

Widths = tuple[int, Mapping[str, int]]  # an episode, and the width of each of its fields


class Read(NamedTuple):
    """Checksums and widths of an episode that was read and checked, or its damage."""

    sums: Mapping[str, int]
    cast: str | None = None
    damage: DamageError | None = None
    widths: Mapping[str, int] = {}


class Reading:
    """The reading of one source: which widths are right, and which episodes were seen."""

    def __init__(self, source: Source, progress: bool):
        self.source, self.progress = source, progress
        self.like: Widths | None = None
        self.seen: dict[tuple[int, ...], int] = {}
        self.dtypes: dict[str, np.dtype] = {}  # of the store; physics may have one of two

    def read(self, index: int) -> tuple[Episode, Read]:
        """Read and check one episode by itself."""
        source = self.source
        raw = source.read(index)
        cast = casts(raw, source.keys)
        episode = checked(source.names[index], raw, source.keys, source.lengths[index])
        found = {
            k: v.astype(self.dtypes.get(k, v.dtype), copy=False)
            for k, v in episode._asdict().items() if v is not None
        }  # fmt: skip
        widths = {k: v.shape[1] if v.ndim == 2 else 1 for k, v in found.items()}
        sums = {k: zlib.crc32(v.data) for k, v in found.items()}
        return Episode(**found), Read(sums, cast, None, widths)

    def check(self, index: int) -> Read:
        """Read one episode only to find its damage."""
        try:
            return self.read(index)[1]
        except DamageError as damage:
            return Read({}, damage=damage)

    def misfit(self, index: int, widths: Mapping[str, int]) -> DamageError | None:
        """Return the damage if an episode's fields or widths are not the right ones."""
        mine = index, widths
        if self.like is None or widths == self.like[1]:
            return None
        lacks = widths.keys() - self.like[1].keys()  # the one that lacks a field is damaged
        return self._odd(self.like, mine) if lacks else self._odd(mine, self.like)

    def _odd(self, bad: Widths, good: Widths) -> DamageError:
        """Return the damage of an episode whose fields or widths differ from a good one's."""
        (index, found), (example, wanted) = bad, good
        names, like = self.source.names, f"as in '{Path(self.source.names[example]).name}'"
        field = next(k for k in [*wanted, *found] if wanted.get(k) != found.get(k))
        expected = f"{wanted[field]} columns {like}" if field in wanted else f"no such key, {like}"
        have = f"{found[field]}" if field in found else "nothing"
        return DamageError(names[index], self.source.keys[field].name, expected, have)

    def find_damage(self) -> dict[int, DamageError]:
        """Read all to find their damage; the fields and widths of most episodes are right."""
        found = dict(self.each(list(range(len(self.source.names))), self.check, "check"))
        damages = {i: read.damage for i, read in found.items() if read.damage is not None}
        kinds = {i: read.widths for i, read in found.items() if i not in damages}
        if kinds:  # the most frequent kind; the first of equals
            usual = Counter(tuple(k.items()) for k in kinds.values()).most_common(1)[0][0]
            example = next(i for i, kind in kinds.items() if tuple(kind.items()) == usual)
            good = example, kinds[example]
            damages |= {i: self._odd((i, k), good) for i, k in kinds.items() if k != good[1]}
        return damages

    def each(
        self, indices: list[int], work: Callable[[int], Read], title: str
    ) -> Iterator[tuple[int, Read]]:
        """Yield (index, read) in order, with a few in parallel; find duplicates."""
        workers = min(len(os.sched_getaffinity(0)), 16)
        waiting, flying = iter(indices), deque[tuple[int, Future]]()
        with (
            ThreadPoolExecutor(workers) as pool,
            tqdm(total=len(indices), desc=title, unit="episode", disable=not self.progress) as bar,
        ):
            try:
                while True:
                    while len(flying) < 4 * workers and (i := next(waiting, None)) is not None:
                        flying.append((i, pool.submit(work, i)))
                    if not flying:
                        return
                    index, future = flying.popleft()
                    yield index, self.once(index, future.result())
                    bar.update()
            finally:
                pool.shutdown(cancel_futures=True)

    def once(self, index: int, read: Read) -> Read:
        """Return what was read, or a damage if it is a copy of another episode."""
        mark = (read.sums.get("obs", -1), read.sums.get("action", -1), self.source.lengths[index])
        first = self.seen.setdefault(mark, index)
        if read.damage is not None or first == index:
            return read
        names = self.source.names
        damage = DamageError(
            names[index], None, "an episode of its own", f"a copy of {names[first]}"
        )
        return read._replace(damage=damage)


def read_all(source: Source, on_bad: str = "error", progress: bool = True) -> Dataset:
    """Read a source into memory, without a store."""
    reading, kept, skipped = Reading(source, progress), dict[int, Episode](), list[str]()

    def work(index: int) -> Read:
        try:
            kept[index], read = reading.read(index)
        except DamageError as damage:
            return Read({}, damage=damage)
        return read

    casts: list[str] = []
    for index, read in reading.each(list(range(len(source.names))), work, "read"):
        if read.damage is None:
            reading.like = reading.like or (index, read.widths)
            read = read._replace(damage=reading.misfit(index, read.widths))
        if read.damage is not None:
            kept.pop(index, None)
            skipped.append(str(read.damage))
            if on_bad == "error":
                raise read.damage
        elif read.cast:
            casts.append(read.cast)
    if not kept:
        raise DataError(f"'{source.root}': no episode is whole; the first: {skipped[0]}")
    notes = (*source.notes, *dict.fromkeys(casts))
    return Dataset.from_episodes(
        [kept[i] for i in sorted(kept)], source=f"{source.label or source.format}:{source.root}",
        notes=notes, skipped=tuple(skipped), domain=source.domain,
    )  # fmt: skip
