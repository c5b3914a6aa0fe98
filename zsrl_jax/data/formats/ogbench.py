"""OGBench on disk: one npz of flat arrays, T+1 rows per trajectory, `terminals` 1 in the last row.

    row t of a trajectory: observations s_t, actions a_t; the last row's action leads nowhere

`terminals` marks where a trajectory ends, not where its task does. A state is terminal only where
`masks` is 0 in the row before it. `qpos` and `qvel` are the physics, if present. The same arrays
may also be given as a mapping, from a notebook.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.data.episode import Episode, Key, Source, flags
from zsrl_jax.data.formats import npz
from zsrl_jax.errors import DamageError, DataError

NEEDED, OPTIONAL = ("observations", "actions", "terminals"), ("rewards", "masks", "qpos", "qvel")
KEYS = {
    "obs": Key("observations"),
    "action": Key("actions"),
    "discount": Key("masks"),
    "reward": Key("rewards"),
    "physics": Key("qpos, qvel"),
}
PART = re.compile(r"(.+)-\d{3}\.npz")  # a large dataset comes in numbered files


def list_files(path: Path) -> list[Path]:
    """List the files of one dataset: the file, or a folder's numbered parts."""
    if path.is_file():
        return [path]
    files = sorted(f for f in path.glob("*.npz") if not f.stem.endswith("-val"))
    stems = {match[1] if (match := PART.fullmatch(f.name)) else f.stem for f in files}
    if len(stems) != 1:
        names = ", ".join(f.name for f in files[:4])
        raise DataError(f"'{path}' holds {len(stems)} datasets ({names}): name one file")
    return files


def open_source(path: Path, scratch: Path) -> Source:
    """Unpack a dataset's files into `scratch` and find their trajectories."""
    files = list_files(path)
    parts = []
    for i, file in enumerate(files):
        found = npz.large_members(file)
        for key in NEEDED:
            if key not in found:
                names = ", ".join(sorted(found)) or "nothing"
                raise DamageError(file, key, f"the keys {', '.join(NEEDED)}", f"only {names}")
        npz.refuse_pickles(file, found)
        parts.append(npz.unpack(file, (*NEEDED, *OPTIONAL), scratch / f"raw_{i}"))
    return from_arrays(path, files, parts)._replace(domain=_domain(files[0]))


def _domain(file: Path) -> str | None:
    """Return the domain that is named in a file, if we converted it."""
    info = npz.large_members(file).get("domain")
    if info is None or info.file_size > npz.HEAD:
        return None
    found = npz.read_small(file, "domain", info)
    return str(found) if found.dtype.kind == "U" else None


def from_arrays(
    root: Any, files: Sequence[Path], parts: Sequence[Mapping[str, np.ndarray]]
) -> Source:
    """Find the trajectories in flat arrays, one mapping per file."""
    places, names = [], []
    for part, file in zip(parts, files or [root], strict=True):
        ends = _ends(file, part)
        starts = np.concatenate([[0], ends[:-1] + 1])
        places += [(part, int(a), int(b)) for a, b in zip(starts, ends, strict=True)]
        names += [f"{file}#{i}" for i in range(len(ends))]

    def read(index: int) -> Episode:
        part, start, end = places[index]
        obs, action = part["observations"][start : end + 1], part["actions"][start:end]
        alive = part["masks"][start:end] if "masks" in part else np.ones(end - start, np.float32)
        reward = part["rewards"][start:end] if "rewards" in part else None
        physics = None
        if "qpos" in part and "qvel" in part:
            state = [part[key][start : end + 1] for key in ("qpos", "qvel")]
            physics = np.concatenate(state, axis=1)
        return Episode(obs, action, alive, reward, physics)

    lengths = [end - start for _, start, end in places]
    return Source("ogbench", root, files, names, lengths, read, KEYS)


def _ends(file: Any, part: Mapping[str, np.ndarray]) -> np.ndarray:
    """Check that the arrays fit together; return the last row of each trajectory."""
    for key in NEEDED:
        if key not in part:
            names = ", ".join(sorted(part)) or "nothing"
            raise DamageError(file, key, f"the keys {', '.join(NEEDED)}", f"only {names}")
    rows = len(part["observations"]) if part["observations"].ndim else 0
    for key, value in part.items():
        ndim = 1 if key in ("terminals", "rewards", "masks") else 2
        if value.ndim != ndim or len(value) != rows:
            wanted = f"{rows} rows of {ndim} dimension(s), as observations"
            raise DamageError(file, key, wanted, f"shape {value.shape}")
    if not rows:
        raise DamageError(file, "observations", "at least two rows: a transition", "none")
    ends = np.flatnonzero(flags(file, "terminals", part["terminals"]))
    if not len(ends) or ends[-1] != rows - 1:
        found = f"the last one in row {ends[-1]}" if len(ends) else "none"
        raise DamageError(file, "terminals", f"an end in row {rows - 1}, the last", found)
    return ends
