"""ExORL on disk: one file per episode, `episode_{index}_{length}.npz` or with a timestamp.

Keys observation (T+1, O), action (T+1, A), reward (T+1, 1), discount (T+1, 1), physics (T+1, P).
Row t holds the state reached and the action, reward and discount of the step that led to it; row 0
is the reset state with a dummy action. So transition t is (observation[t], action[t+1],
observation[t+1]).
"""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from zsrl_jax.data.episode import Episode, Key, Source
from zsrl_jax.data.formats import npz
from zsrl_jax.errors import DamageError, DataError

KEYS = {
    "obs": Key("observation"),
    "action": Key("action", 1),
    "discount": Key("discount", 1),
    "reward": Key("reward", 1),
    "physics": Key("physics"),
}
NAME = re.compile(r"(?:episode|(?P<time>\w+))_(?P<index>\d+)_(?P<length>\d+)\.npz")


def find_buffer(path: str | os.PathLike, domain: str | None = None, algo: str = "rnd") -> Path:
    """Find the folder of episode files: `path` itself, or its place in an ExORL tree at `path`."""
    root = Path(path)
    if not root.exists():
        raise DataError(f"dataset folder '{root}' does not exist: expected ExORL episode files")
    tried = [root, root / "buffer"]
    if domain:
        tried += [root / domain / algo / "buffer", root / "datasets" / domain / algo / "buffer"]
    for folder in tried:
        if folder.is_dir() and any(NAME.fullmatch(file.name) for file in folder.iterdir()):
            return folder
    raise DataError(
        f"no ExORL episodes (episode_<index>_<length>.npz) in '{root}': looked in "
        + ", ".join(str(folder) for folder in tried)
    )


def list_episodes(folder: Path) -> list[Path]:
    """List episode files in the order of collection: by timestamp, then by number."""
    matches = [match for name in os.listdir(folder) if (match := NAME.fullmatch(name))]
    order = sorted((match["time"] or "", int(match["index"]), match[0]) for match in matches)
    return [folder / name for *_, name in order]


def find(path: Path) -> tuple[Path, list[Path]]:
    """Return the folder of episodes and its files in order, or one file."""
    folder = path if path.is_file() else find_buffer(path)
    return folder, [path] if path.is_file() else list_episodes(folder)


def open_source(path: Path) -> Source:
    """List ExORL episodes without reading them: a folder's, or one file."""
    folder, files = find(path)

    def read(index: int) -> Episode:
        return read_episode(files[index])

    made_here = (files[0].parent.parent / "explorer").is_dir()  # ours, not ExORL's
    names, lengths = [str(file) for file in files], [_steps(file) for file in files]
    label = "collected" if made_here else ""
    return Source("exorl", folder, files, names, lengths, read, KEYS, label=label)


def _steps(file: Path) -> int:
    match = NAME.fullmatch(file.name)
    if match is None:
        raise DamageError(file, None, "a name such as episode_<index>_<length>.npz", "another")
    return int(match["length"])


def read_episode(file: Path) -> Episode:
    """Read one episode file and undo its offset: row 0 holds no real action."""
    needed = ("observation", "action", "discount")
    raw = npz.read(file, needed, ("reward", "physics"))
    rows = _steps(file) + 1
    for key, value in raw.items():
        if value.ndim != 2 or len(value) != rows:
            wanted = f"{rows} rows (T+1, by the file's name) of 2 dimensions"
            raise DamageError(file, key, wanted, f"shape {value.shape}")
    for key in ("discount", "reward"):
        if key in raw and raw[key].shape[1] != 1:
            raise DamageError(file, key, "1 column", f"{raw[key].shape[1]}")
    reward = raw["reward"][1:, 0] if "reward" in raw else None
    return Episode(
        raw["observation"], raw["action"][1:], raw["discount"][1:, 0], reward, raw.get("physics")
    )


def write_episode(
    folder: Path,
    index: int,
    obs: np.ndarray,
    action: np.ndarray,
    physics: np.ndarray | None,
    rest: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Write one episode in ExORL's layout; the file appears whole or not at all.

    `rest` may hold reward [T] and discount [T]; without them rewards are 0 and nothing ends.
    """
    steps, rest = len(action), rest or {}
    column = np.ones((steps + 1, 1), np.float32)
    arrays = {
        "observation": obs.astype(np.float32),
        "action": np.concatenate([np.zeros_like(action[:1]), action]).astype(np.float32),
        "reward": np.zeros_like(column),
        "discount": column,
    }
    for key in rest:
        arrays[key][1:, 0] = rest[key]
    if physics is not None:
        arrays["physics"] = physics
    file = folder / f"episode_{index:06d}_{steps}.npz"
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
        np.savez_compressed(part, **arrays)  # type: ignore[arg-type]
        part.flush()
        os.fsync(part.fileno())  # contents must be on disk before the name is
    os.replace(part.name, file)
    return file
