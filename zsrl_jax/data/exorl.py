"""ExORL on disk: one episode a file, `episode_{index}_{length}.npz` or with a timestamp.

Keys observation (T+1, O), action (T+1, A), reward (T+1, 1), discount (T+1, 1), physics (T+1, P).
Row t holds the state reached and the action, reward and discount of the step that led to it; row 0
is the reset state with a dummy action. So transition t is (observation[t], action[t+1],
observation[t+1]).
"""

import os
import re
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np

from zsrl_jax.data.dataset import Dataset
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import DataError

NAME = re.compile(r"(?:episode|(?P<time>\w+))_(?P<index>\d+)_(?P<length>\d+)\.npz")


def find_buffer(path: str | os.PathLike, domain: str | None = None, algo: str = "rnd") -> Path:
    """Find the folder of episode files at `path`, or where ExORL's tree keeps it below `path`."""
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
    found = [(match, f) for f in folder.iterdir() if (match := NAME.fullmatch(f.name))]
    order = {file: (match["time"] or "", int(match["index"])) for match, file in found}
    return sorted(order, key=order.__getitem__)


def read_episode(file: Path) -> dict[str, np.ndarray]:
    """Read one episode file and check its keys, shapes and values."""
    keys = ("observation", "action", "discount")
    try:
        with np.load(file, allow_pickle=False) as archive:
            names = set(archive.files)
            missing = [key for key in keys if key not in names]
            if missing:
                raise DataError(
                    f"episode '{file}' has no key '{missing[0]}': expected {', '.join(keys)} "
                    f"and physics, found {', '.join(sorted(names)) or 'nothing'}"
                )
            wanted = [*keys, *(names & {"physics"})]
            episode = {key: archive[key] for key in wanted}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"episode '{file}' cannot be read as an npz archive ({error}): it is damaged or cut "
            "off; delete it or copy it again"
        ) from error
    _check(file, episode)
    return episode


def _check(file: Path, episode: dict[str, np.ndarray]) -> None:
    match = NAME.fullmatch(file.name)
    rows = int(match["length"]) + 1 if match else len(episode["observation"])
    for key, value in episode.items():
        if value.ndim != 2 or len(value) != rows:
            raise DataError(
                f"episode '{file}', key '{key}': expected {rows} rows (T+1, by the file's name) "
                f"of 2 dimensions, found shape {value.shape}"
            )
        if not np.isfinite(value).all():
            row = int(np.argwhere(~np.isfinite(value).all(axis=1))[0, 0])
            raise DataError(f"episode '{file}', key '{key}': value not finite in row {row}")


def load(path: str | os.PathLike, max_episodes: int | None = None) -> Dataset:
    """Load ExORL episodes into one dataset, in the order of collection."""
    folder = find_buffer(path)
    files = list_episodes(folder)[:max_episodes]
    first = read_episode(files[0])
    widths = {key: value.shape[1] for key, value in first.items()}
    lengths = [int(NAME.fullmatch(file.name)["length"]) for file in files]  # type: ignore[index]
    rows, num = max(lengths) + 1, len(files)
    obs = np.zeros((num, rows, widths["observation"]), np.float32)
    action = np.zeros((num, rows - 1, widths["action"]), np.float32)
    discount = np.zeros((num, rows - 1), np.float32)
    physics = np.zeros((num, rows, widths["physics"])) if "physics" in widths else None
    for i, (file, length) in enumerate(zip(files, lengths, strict=True)):
        episode = read_episode(file)
        for key, width in widths.items():
            found = episode[key].shape[1] if key in episode else "nothing"
            if found != width:
                raise DataError(
                    f"episode '{file}', key '{key}': expected {width} columns as in "
                    f"'{files[0].name}', found {found}"
                )
        obs[i, : length + 1] = episode["observation"]
        action[i, :length] = episode["action"][1:]
        discount[i, :length] = episode["discount"][1:, 0]
        if physics is not None:
            physics[i, : length + 1] = episode["physics"]
    kind = "collected" if (folder.parent / "explorer").is_dir() else "exorl"  # by us, or theirs
    return Dataset(
        obs, action, discount, np.asarray(lengths, np.int32), physics,
        domain=guess_domain(widths), source=f"{kind}:{folder}",
    )  # fmt: skip


def guess_domain(widths: dict[str, int]) -> str | None:
    """Name the domain whose observation, action and physics widths these are."""
    for name, domain in DOMAINS.items():
        known = (domain.obs_dim, domain.action_dim, domain.physics_dim)
        found = (widths["observation"], widths["action"], widths.get("physics", known[2]))
        if known == found:
            return name
    return None


def write_episode(
    folder: Path, index: int, obs: np.ndarray, action: np.ndarray, physics: np.ndarray
) -> Path:
    """Write one episode in ExORL's layout; the file appears whole or not at all."""
    steps = len(action)
    column = np.ones((steps + 1, 1), np.float32)
    arrays = {
        "observation": obs.astype(np.float32),
        "action": np.concatenate([np.zeros_like(action[:1]), action]).astype(np.float32),
        "reward": np.zeros_like(column),
        "discount": column,
        "physics": physics.astype(np.float64),
    }
    file = folder / f"episode_{index:06d}_{steps}.npz"
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
        np.savez_compressed(part, **arrays)  # type: ignore[arg-type]
    os.replace(part.name, file)
    return file
