"""Pack a source into a store: in parallel, in bounded memory, with stop and resume.

Threads read, check and write a few episodes at a time, each to its own place in the files. A
journal lists those safely on disk, so that the same call again goes on from there. The store
appears whole, by a rename, or not at all. Two processes that pack the same source take turns.
"""

from collections.abc import Callable
from pathlib import Path

from zsrl_jax.data import store
from zsrl_jax.data.episode import STATES, Source
from zsrl_jax.data.journal import Files
from zsrl_jax.data.reading import Read, Reading
from zsrl_jax.errors import DamageError, DataError
from zsrl_jax.files import lock
from zsrl_jax.files.atomic import discard, move_in, part_of


def pack(
    open_source: Callable[[Path], Source],
    folder: Path,
    on_bad: str = "error",
    progress: bool = True,
) -> None:
    """Pack a source into a store at `folder`; a source may use the path it is given as scratch."""
    part = part_of(folder)
    with lock.turn(part, folder) as mine:
        if not mine:
            return
        try:
            _fill(open_source(part), part, on_bad, progress)
        except DataError:  # the source must change first, and then all is packed anew
            discard(part)
            raise
        move_in(part, folder)


def _fill(source: Source, part: Path, on_bad: str, progress: bool) -> None:
    """Write all files of the store; with `skip`, find the damaged episodes first."""
    reading = Reading(source, progress)
    good, damages = list(range(len(source.names))), dict[int, DamageError]()
    if on_bad == "skip":
        damages = reading.find_damage()
        good = [i for i in good if i not in damages]
    if not good:
        raise DataError(f"'{source.root}': no episode is whole; the first: {damages[0]}")
    _write(reading, part, good, [damages[i] for i in sorted(damages)])


def _write(reading: Reading, part: Path, good: list[int], skipped: list[DamageError]) -> None:
    """Write the fields and the manifest of these episodes, starting where the journal ends."""
    source = reading.source
    first, told = reading.read(good[0])
    reading.like, reading.seen = (good[0], told.widths), {}
    lengths = [source.lengths[i] for i in good]
    fields = {k: v for k, v in first._asdict().items() if v is not None}
    reading.dtypes = {k: v.dtype for k, v in fields.items()}
    shapes = {k: (len(good), max(lengths) + (k in STATES), *v.shape[1:]) for k, v in fields.items()}
    plan = {
        "version": store.VERSION, "format": source.format, "label": source.label,
        "domain": source.domain,
        "files": store.stamps(source.root, source.files), "lengths": lengths,
        "names": [Path(source.names[i]).name for i in good],
        "skipped": [damage.parts() for damage in skipped],
        "shapes": {k: [list(s), fields[k].dtype.str] for k, s in shapes.items()},
    }  # fmt: skip
    with Files(part, plan) as files:
        place = {i: j for j, i in enumerate(good)}

        def work(index: int) -> Read:
            episode, read = reading.read(index)
            damage = reading.misfit(index, read.widths)
            if damage is not None:
                return read._replace(damage=damage)
            files.put(place[index], episode)
            return read

        done = files.done
        for j in range(len(done)):
            reading.once(good[j], Read(done[j]["sums"]))
        for _, read in reading.each(good[len(done) :], work, "pack"):
            if read.damage is not None:
                raise read.damage
            files.note({"sums": read.sums, "cast": read.cast})
        files.finish(list(source.notes))
