"""D4RL on disk: one HDF5 file of flat arrays, one row per transition.

    row t: observations s_t, actions a_t, rewards r_t, terminals, timeouts; next_observations s_t+1

An episode ends where `terminals` is set (discount 0) or `timeouts` is set (discount 1), and where
the next row does not start from the state reached. Without `next_observations` the file does not
hold the state that an episode's last action reached: that transition is left out, and a note says
so. `infos/qpos` and `infos/qvel` are the physics, if every state of an episode has them.
"""

from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.data.episode import Episode, Key, Source, flags
from zsrl_jax.data.formats import hdf5
from zsrl_jax.errors import DamageError

NEEDED = ("observations", "actions", "terminals")
KEYS = {
    "obs": Key("observations"),
    "action": Key("actions"),
    "discount": Key("terminals"),
    "reward": Key("rewards"),
    "physics": Key("infos/qpos, infos/qvel"),
}
PIECE = 1 << 16  # rows compared at a time


def open_source(path: Path, scratch: Path) -> Source:
    """Open a file and find its episodes."""
    return from_arrays(path, [path], hdf5.open_file(path))


def from_arrays(path: Any, files: list[Path], file: Any) -> Source:
    """Find the episodes in flat arrays, of an HDF5 file or of a mapping."""
    for key in NEEDED:
        if key not in file:
            found = ", ".join(sorted(file)) or "nothing"
            raise DamageError(path, key, f"the keys {', '.join(NEEDED)}", f"only {found}")
    _check_shapes(path, file)
    terminal = flags(path, "terminals", _take(path, file, "terminals"))
    ends, notes = _ends(path, file, terminal)
    starts = np.concatenate([[0], ends[:-1] + 1])
    whole = "next_observations" in file
    lengths = ends - starts + whole
    has_physics = not whole and "infos/qpos" in file and "infos/qvel" in file

    def read(index: int) -> Episode:
        start, steps = int(starts[index]), int(lengths[index])

        def take(key: str, num: int, first: int = start) -> np.ndarray:
            return _take(path, file, key, slice(first, first + num))

        obs = take("observations", steps + (not whole))
        if whole:
            obs = np.concatenate([obs, take("next_observations", 1, start + steps - 1)])
        alive = 1 - terminal[start : start + steps].astype(np.float32)
        reward = np.ravel(take("rewards", steps)) if "rewards" in file else None
        physics = None
        if has_physics:
            physics = np.concatenate([take(f"infos/{k}", steps + 1) for k in ("qpos", "qvel")], 1)
        return Episode(obs, take("actions", steps), alive, reward, physics)

    names = [f"{path}#{i}" for i in range(len(ends))]
    return Source("d4rl", path, files, names, lengths.tolist(), read, KEYS, notes)


def _take(path: Any, file: Any, key: str, rows: slice = slice(None)) -> np.ndarray:
    return hdf5.numbers(path, key, hdf5.node(path, file, key), rows)


def _check_shapes(path: Any, file: Any) -> None:
    """Check that the shapes of all arrays fit together, before any is read."""
    rows = None
    for key in (*NEEDED, "rewards", "timeouts", "next_observations"):
        if key in file:
            shape = getattr(hdf5.node(path, file, key), "shape", ())
            rows = shape[0] if rows is None and shape else rows
            wide = key in ("observations", "actions", "next_observations")
            if not shape or shape[0] != rows or (wide and len(shape) != 2):
                wanted = f"{rows or 'many'} rows" + (" of one axis each" if wide else "")
                raise DamageError(path, key, wanted, f"shape {shape}" if shape else "none")
    if not rows:
        raise DamageError(path, "observations", "at least two rows: a transition", "none")


def _ends(path: Any, file: Any, terminal: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return the last row of each episode, and notes for the user."""
    end, notes = terminal.copy(), list[str]()
    if "timeouts" in file:
        end |= flags(path, "timeouts", _take(path, file, "timeouts"))
    if "next_observations" in file:
        torn = 0
        for i in range(0, len(end) - 1, PIECE):
            num = min(PIECE, len(end) - 1 - i)
            reached = _take(path, file, "next_observations", slice(i, i + num))
            begun = _take(path, file, "observations", slice(i + 1, i + 1 + num))
            apart = (reached != begun).any(axis=1) & ~end[i : i + num]
            end[i : i + num] |= apart
            torn += int(apart.sum())
        if torn:
            notes.append(f"{torn} episodes end where the next row does not go on from them")
        if "infos/qpos" in file:
            notes.append("infos/qpos lacks the last state of each episode: physics left out")
    end[-1] = True
    ends = np.flatnonzero(end)
    if "next_observations" not in file:
        lost, terminals = len(ends), int(terminal[ends].sum())
        notes.append(
            f"no key 'next_observations': the last transition of each of {lost} episodes is left "
            f"out, {terminals} of them terminal"
        )
    return ends, notes
