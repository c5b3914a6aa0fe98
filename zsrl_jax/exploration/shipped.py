"""Explorers that ship with the package: actors kept while they learned to explore.

A file `explorers/<domain>.npz` holds S actors, each with the statistics that normalise its
observations: several explorers, each at several ages (docs/data.md tells what that changes). A
weight is a whole number of steps, and an older actor is stored as its difference to the younger one
of the same explorer, which packs well:

    w = scale q / n,   q in {-n, ..., n},   scale the largest |w| of a unit's inputs

with n = 31 in the package. The rest has half precision. `<domain>.json` beside it tells how they
were trained, and holds the checksum of the file. Playing them (`playing`) takes a minute or two,
and makes data like that of their replay buffers, without any learning.
"""

import hashlib
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from zsrl_jax.errors import DataError
from zsrl_jax.exploration.rnd import ExplorerState
from zsrl_jax.files import atomic

FOLDER = Path(__file__).parent / "explorers"
FINE, COARSE = 127, 31  # steps of a weight on each side of 0: while training, in the package
SCALE = ":scale"  # ends the name of the array that holds the scales of another


class Explorers(NamedTuple):
    """S actors of one domain; axis 0 of every array is the actor."""

    actor: Any
    mean: Float[np.ndarray, "s obs"]  # of the observations each was trained on
    deviation: Float[np.ndarray, "s obs"]

    @property
    def number(self) -> int:
        """Count the actors."""
        return len(self.mean)


def exist(domain: str, folder: Path | None = None) -> bool:
    """Tell whether the package has explorers of a domain."""
    return _card_file(domain, folder).exists()


def read_card(domain: str, folder: Path | None = None) -> dict[str, Any]:
    """Return how a domain's explorers were trained, and the checksum of their file."""
    file = _card_file(domain, folder)
    try:
        card: dict[str, Any] = json.loads(file.read_text())
        card["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(_advice(file, "is missing or damaged")) from None
    return card


def load(domain: str, folder: Path | None = None) -> Explorers:
    """Read a domain's explorers, after a check of the file against its checksum."""
    file = _actor_file(domain, folder)
    try:
        content = file.read_bytes()
    except OSError:
        raise DataError(_advice(file, "is missing")) from None
    if hashlib.sha256(content).hexdigest() != read_card(domain, folder)["sha256"]:
        raise DataError(_advice(file, "is damaged: its checksum is not that of its card"))
    with np.load(io.BytesIO(content)) as stored:
        arrays = {name: np.asarray(stored[name], np.float64) for name in stored.files}
    mean, deviation = arrays.pop("mean"), arrays.pop("deviation")
    apart = int(arrays.pop("apart", 1))
    for name in [name for name in arrays if name + SCALE in arrays]:
        arrays[name] = _from_steps(arrays[name], apart) * arrays.pop(name + SCALE)
    return Explorers(_unflatten(arrays), mean, deviation)


def snapshot(state: ExplorerState) -> Explorers:
    """Take from an explorer in training what it needs to act, as the only actor of its kind."""
    one = state.learner.params["actor"], state.obs.mean, state.obs.deviation()
    return Explorers(*jax.tree.map(lambda x: np.asarray(x)[None], one))


def join(explorers: list[Explorers]) -> Explorers:
    """Put explorers of one domain together, in the order given."""
    return jax.tree.map(lambda *rows: np.concatenate(rows), *explorers)


def save(
    domain: str,
    explorers: Explorers,
    card: dict[str, Any],
    folder: Path | None = None,
    apart: int = 1,
    levels: int = FINE,
) -> Path:
    """Write explorers and their card; `apart` actors on stands the same explorer, grown older."""
    arrays = {"apart": np.array(apart)}
    for name, x in _flatten(explorers.actor).items():
        arrays |= _to_steps(name, x, apart, levels) if x.ndim == 3 else {name: x.astype(np.float16)}
    statistics = {
        "mean": explorers.mean.astype(np.float32),
        "deviation": explorers.deviation.astype(np.float32),
    }
    content = io.BytesIO()
    np.savez_compressed(content, **arrays, **statistics)  # type: ignore[arg-type]
    file = _actor_file(domain, folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(file, content.getvalue())
    card = card | {"sha256": hashlib.sha256(content.getvalue()).hexdigest()}
    atomic.write_text(_card_file(domain, folder), json.dumps(card, indent=1) + "\n")
    return file


def _to_steps(
    name: str, weight: Float[np.ndarray, "s inputs units"], apart: int, levels: int
) -> dict[str, np.ndarray]:
    """Return a layer's weights in whole steps, older actors as differences, and units' steps."""
    step = np.abs(weight).max(axis=(0, 1), keepdims=True) / levels
    number = np.round(np.divide(weight, step, out=np.zeros(weight.shape), where=step > 0))
    number[apart:] -= number[:-apart].copy()
    return {name: number.astype(np.int16), name + SCALE: step.astype(np.float32)}


def _from_steps(number: np.ndarray, apart: int) -> np.ndarray:
    """Add up the differences to younger actors."""
    for older in range(apart, len(number)):
        number[older] += number[older - apart]
    return number


def _flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        found |= _flatten(value, f"{path}/") if isinstance(value, dict) else {path: value}
    return found


def _unflatten(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in arrays.items():
        *rooms, last = path.split("/")
        place = tree
        for room in rooms:
            place = place.setdefault(room, {})
        place[last] = value
    return tree


def _actor_file(domain: str, folder: Path | None) -> Path:
    return (folder or FOLDER) / f"{domain}.npz"


def _card_file(domain: str, folder: Path | None) -> Path:
    return (folder or FOLDER) / f"{domain}.json"


def _advice(file: Path, wrong: str) -> str:
    return (
        f"the explorers '{file}' {wrong}: install the package again, or train an explorer "
        "(--train; in a config data.collect.explorer=train)"
    )
