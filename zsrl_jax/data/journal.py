"""An unfinished store: files of their full size, and a journal of the episodes safely in them.

Data is synced before the journal mentions it, so that a line of the journal is always true.
"""

import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.data import store
from zsrl_jax.data.episode import Episode
from zsrl_jax.errors import DataError

SYNC_SECONDS = 5.0  # of work that a sudden stop may lose
AHEAD = 8 << 20  # bytes after which the system is asked to start writing them to disk
JOURNAL = "journal.jsonl"


def _begin(descriptor: int, end: int) -> None:
    """Let the system start writing what lies before `end` to disk, without waiting for it.

    The call says that these pages are not needed: the system writes new pages, and frees only
    those that are on disk already.
    """
    os.posix_fadvise(descriptor, 0, end, os.POSIX_FADV_DONTNEED)


class Files:
    """The unfinished `.npy` files, and the journal of the episodes safely in them."""

    def __init__(self, part: Path, plan: dict[str, Any]):
        self.part, self.plan, self.pending, self.synced = part, plan, 0, time.monotonic()
        self.done = self._resume()
        self.files: dict[str, tuple[int, int, int]] = {}

    def __enter__(self) -> "Files":
        total = 0
        for shape, dtype in self.plan["shapes"].values():
            total += int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        free = shutil.disk_usage(self.part).free
        if not self.done and total > free:
            raise DataError(
                f"the store in '{self.part.parent}' needs {total / 2**30:.1f} GiB, "
                f"{free / 2**30:.1f} are free: name another folder in data.store"
            )
        for field, (shape, dtype) in self.plan["shapes"].items():
            self.files[field] = self._create(field, tuple(shape), np.dtype(dtype))
        lines = [json.dumps(line) + "\n" for line in (self.plan, *self.done)]
        draft = self.part / f"{JOURNAL}.new"  # without the last line if it was cut off
        draft.write_text("".join(lines))
        os.replace(draft, self.part / JOURNAL)
        self.journal = (self.part / JOURNAL).open("a")
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self.journal.close()
        for file in self.files.values():
            os.close(file[0])

    def _resume(self) -> list[dict[str, Any]]:
        """Return what the journal says is done, if its plan is the same; else start anew."""
        try:
            lines = (self.part / JOURNAL).read_text().splitlines()
            same = json.loads(lines[0]) == json.loads(json.dumps(self.plan))
        except (OSError, ValueError, IndexError):
            same, lines = False, []
        if not same:
            for file in self.part.iterdir():
                if file.is_file():  # folders hold what a source unpacked here
                    file.unlink()
            return []
        done = []
        for line in lines[1:]:
            with contextlib.suppress(ValueError):  # the last may be cut off
                done.append(json.loads(line))
        return done

    def _create(self, field: str, shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, int, int]:
        """Open a field's file, of its full size; return descriptor, header and episode bytes."""
        path = self.part / f"{field}.npy"
        stride = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        if not path.exists():
            with path.open("wb") as out:
                header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(out, header)
                offset = out.tell()
                out.truncate(offset + shape[0] * stride)
        descriptor = os.open(path, os.O_RDWR)
        return descriptor, os.fstat(descriptor).st_size - shape[0] * stride, stride

    def put(self, place: int, episode: Episode) -> None:
        """Write an episode to its place; its padding remains a hole in the file."""
        for field, (descriptor, offset, stride) in self.files.items():
            data, at = memoryview(getattr(episode, field)).cast("B"), offset + place * stride
            while len(data):
                written = os.pwrite(descriptor, data, at)
                data, at = data[written:], at + written
            if at // AHEAD > (at - stride) // AHEAD and hasattr(os, "posix_fadvise"):
                _begin(descriptor, at)

    def note(self, line: dict[str, Any]) -> None:
        """Add an episode that was written; the journal gets it once it is safely on disk."""
        self.done.append(line)
        self.pending += 1
        if time.monotonic() - self.synced > SYNC_SECONDS:
            self._flush()

    def _flush(self) -> None:
        for descriptor, _, _ in self.files.values():
            os.fsync(descriptor)
        if self.pending:
            for line in self.done[-self.pending :]:
                self.journal.write(json.dumps(line) + "\n")
        self.journal.flush()
        os.fsync(self.journal.fileno())
        self.pending, self.synced = 0, time.monotonic()

    def finish(self, notes: list[str]) -> None:
        """Write the manifest: from here on the folder is a store."""
        self._flush()
        casts: dict[str, int] = {}
        for line in self.done:
            if line["cast"]:
                casts[line["cast"]] = casts.get(line["cast"], 0) + 1
        shapes = self.plan.pop("shapes")
        body = self.plan | {
            "fields": {
                field: {
                    "shape": shape, "dtype": dtype,
                    "bytes": (self.part / f"{field}.npy").stat().st_size,
                }
                for field, (shape, dtype) in shapes.items()
            },
            "sums": {field: [line["sums"][field] for line in self.done] for field in shapes},
            "notes": notes + [f"{text} ({count} episodes)" for text, count in casts.items()],
        }  # fmt: skip
        store.write_manifest(self.part, body)
        for unpacked in self.part.glob("raw_*"):
            shutil.rmtree(unpacked)
        (self.part / JOURNAL).unlink()
