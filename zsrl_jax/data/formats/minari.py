"""Minari on disk, read without Minari or the environment: HDF5, or Arrow, beside metadata.json.

    episode_<i>: observations [T+1], actions [T], rewards, terminations, truncations [T]

A termination has discount 0, a truncation 1. Observations that are dictionaries or tuples are
joined, by name in alphabetical order. Actions are scaled to [-1, 1] from the bounds of the action
space in the metadata; `evaluate` scales them back. A note reports both.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.data.episode import Episode, Key, Source
from zsrl_jax.data.formats import arrow, hdf5
from zsrl_jax.errors import DamageError, DataError

KEYS = {
    "obs": Key("observations"),
    "action": Key("actions"),
    "discount": Key("terminations"),
    "reward": Key("rewards"),
    "physics": Key("infos/qpos, infos/qvel"),
}
NEEDED = ("observations", "actions", "rewards", "terminations")
MAIN = "main_data.hdf5"
Tree = Mapping[str, Any]


def data_folder(path: Path) -> Path | None:
    """Return the folder that holds a dataset's data, or None."""
    for folder in (path, path / "data"):
        if (folder / MAIN).is_file() or any(folder.glob("0/*.arrow")):
            return folder
    return None


def list_files(path: Path) -> list[Path]:
    """List the files that the content depends on: the HDF5 file, or the Arrow files."""
    if path.is_file():
        return [path]
    folder = data_folder(path)
    if folder is None:
        raise DataError(f"no Minari data in '{path}': expected data/{MAIN} or data/0/*.arrow")
    if (folder / MAIN).is_file():
        return [folder / MAIN]
    found = [file for file in folder.glob("*/*.arrow") if file.parent.name.isdecimal()]
    return sorted(found, key=lambda file: (int(file.parent.name), file.name))


def open_source(path: Path, scratch: Path) -> Source:
    """Open a dataset and list its episodes."""
    files = list_files(path)
    is_arrow = files[0].suffix == ".arrow"
    meta = _metadata(files[0].parent.parent if is_arrow else files[0].parent)
    names, lengths, tree = _open_arrow(files) if is_arrow else _open_hdf5(files[0])
    bounds = _bounds(files[0], meta)

    def read(index: int) -> Episode:
        name, steps, node = names[index], lengths[index], tree(index)
        for key in NEEDED:
            if key not in node:
                found = ", ".join(sorted(node)) or "nothing"
                raise DamageError(name, key, f"the keys {', '.join(NEEDED)}", f"only {found}")
            if key != "observations" and isinstance(node[key], dict):
                raise DamageError(name, key, "one array", f"parts {', '.join(node[key])}")
        parts = [value.reshape(len(value), -1) for _, value in _leaves("", node["observations"])]
        if len({len(part) for part in parts}) != 1:
            shapes = ", ".join(str(part.shape) for part in parts)
            raise DamageError(name, "observations", "parts of the same rows", shapes)
        cut = steps if is_arrow else None  # Arrow pads them to as many rows as observations have
        action, reward, ended = (node[key][:cut] for key in NEEDED[1:])
        if bounds is not None and action.ndim == 2 and action.shape[1] == len(bounds[0]):
            action = (action - bounds[0]) / (bounds[1] - bounds[0]) * 2 - 1
        obs, alive = np.concatenate(parts, axis=1), 1 - ended.astype(np.float32)
        return Episode(obs, action, alive, reward, _physics(node, len(obs)))

    made = Source("minari", path, files, names, lengths, read, KEYS, _notes(tree(0), bounds))
    return made._replace(domain=meta.get("domain"))


def _open_hdf5(file: Path) -> tuple[list[str], list[int], Callable[[int], Tree]]:
    """Return names of episodes in order, their claimed lengths, and a function to read one."""
    root = hdf5.open_file(file)
    found = [name for name in root if re.fullmatch(r"episode_\d+", name)]
    if not found:
        raise DamageError(file, None, "groups episode_0, ...", ", ".join(list(root)[:5]) or "none")
    found.sort(key=lambda name: int(name[8:]))
    lengths = []
    for name in found:
        group = hdf5.node(file, root, name)
        claimed = group.attrs.get("total_steps", group.attrs.get("total_timesteps"))
        if claimed is None:
            rewards = group["rewards"] if "rewards" in getattr(group, "keys", list)() else None
            claimed = (*getattr(rewards, "shape", ()), 0)[0]
        lengths.append(_count(f"{file}#{name}", claimed))

    def tree(index: int) -> Tree:
        place, group = f"{file}#{found[index]}", root[found[index]]
        have = [key for key in (*NEEDED, "infos") if key in getattr(group, "keys", list)()]
        kept = {key: hdf5.node(place, group, key) for key in have}
        return {key: hdf5.tree(place, key, x) for key, x in kept.items() if _is_plain(key, x)}

    return [f"{file}#{name}" for name in found], lengths, tree


def _count(path: object, claimed: Any) -> int:
    """Return the steps that an episode claims to have."""
    try:
        return int(claimed)
    except (TypeError, ValueError) as error:
        raise DamageError(path, "total_steps", "a number", repr(claimed)) from error


def _is_plain(key: str, node: Any) -> bool:
    """Tell whether to read a node; `infos` only if it is a group with qpos and qvel."""
    return key != "infos" or (hasattr(node, "keys") and {"qpos", "qvel"} <= set(node))


def _open_arrow(files: list[Path]) -> tuple[list[str], list[int], Callable[[int], Tree]]:
    """Return folders of episodes in order, their claimed lengths, and a function to read one."""
    folders = list(dict.fromkeys(file.parent for file in files))
    claims = [_metadata(folder).get("total_steps") for folder in folders]
    lengths = [
        _count(folder, arrow.count_rows(folder) - 1 if claim is None else claim)
        for folder, claim in zip(folders, claims, strict=True)
    ]
    return [str(folder) for folder in folders], lengths, lambda i: arrow.read(folders[i], NEEDED)


def _leaves(key: str, node: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (name, array) of nested dictionaries, alphabetically, parts of tuples by number."""

    def order(name: str) -> tuple[int, str]:
        number = name.removeprefix("_index_")
        return (int(number), "") if number.isdigit() else (-1, name)

    if isinstance(node, dict):
        for name in sorted(node, key=order):
            yield from _leaves(f"{key}/{name}", node[name])
    else:
        yield key, node


def _notes(node: Tree, bounds: tuple[np.ndarray, np.ndarray] | None) -> list[str]:
    notes = []
    if bounds is not None:
        span = f"[{bounds[0].min():.4g}, {bounds[1].max():.4g}]"
        notes.append(f"actions are scaled to [-1, 1] from {span}")
    parts = list(_leaves("", node.get("observations", {})))
    if len(parts) > 1:
        order = ", ".join(f"{key[1:]} {value.shape[1:]}" for key, value in parts)
        notes.append(f"observations are joined in this order: {order}")
    return notes


def _metadata(folder: Path) -> dict[str, Any]:
    try:
        metadata = json.loads((folder / "metadata.json").read_text())
        if not isinstance(metadata, dict):
            raise ValueError("not a dictionary")
        return metadata
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DamageError(folder / "metadata.json", None, "JSON", f"damage ({error})") from error


def _bounds(file: Path, meta: dict[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the finite bounds of the action space, or None; also None if they are -1 and 1."""
    space = meta.get("action_space")
    try:
        space = json.loads(space) if isinstance(space, str) else space
        if not space:
            return None
        if space["type"] != "Box" or len(space["shape"]) != 1:
            raise DamageError(file, "actions", "one continuous axis (Box)", str(space)[:80])
        low, high = (
            np.broadcast_to(np.asarray(space[key], np.float64), space["shape"])
            for key in ("low", "high")
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DamageError(file, "action_space", "a Box", f"damage ({error})") from error
    if not np.isfinite([low, high]).all() or ((low == -1).all() and (high == 1).all()):
        return None
    return low, high


def _physics(node: Tree, rows: int) -> np.ndarray | None:
    """Return qpos and qvel of every state, if `infos` has them."""
    infos = node.get("infos", {})
    if not {"qpos", "qvel"} <= set(infos) or len(infos["qpos"]) != rows:
        return None
    return np.concatenate([infos["qpos"], infos["qvel"]], axis=1)
