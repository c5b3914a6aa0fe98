"""A dataset on the host: arrays in memory, or a packed store mapped into it."""

import dataclasses
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from zsrl_jax.data.episode import STATES, Episode, Key, checked
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import DamageError, DataError
from zsrl_jax.types import Spec


class Packed(NamedTuple):
    """The store's folder and checksums of its episodes, to compare the data with."""

    folder: Path
    names: Sequence[str]  # of the episodes' files
    sums: Mapping[str, np.ndarray]  # checksums of each episode, by field


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Episodes of one robot: obs[episode, T+1, O], action[episode, T, A].

    Action t leads from obs t to obs t+1, whatever the file's own offset. Episodes shorter than
    the longest are padded; `length` has their steps. Training reads no reward; one that
    the source has is kept for prompts and for conversion.
    """

    obs: Float[np.ndarray, "episode row obs"]
    action: Float[np.ndarray, "episode step action"]
    discount: Float[np.ndarray, "episode step"]  # 0 where obs t+1 is terminal
    length: Int[np.ndarray, " episode"]
    physics: Float[np.ndarray, "episode row physics"] | None = None
    domain: str | None = None
    source: str = "memory"  # where it came from, written into every result
    reward: Float[np.ndarray, "episode step"] | None = None  # of reaching obs t+1
    notes: tuple[str, ...] = ()  # changes made to the data while it was loaded
    skipped: tuple[str, ...] = ()  # episodes left out, each with its damage
    packed: Packed | None = None  # the store that these arrays are mapped from

    @classmethod
    def from_arrays(
        cls,
        obs: Sequence[np.ndarray] | np.ndarray,
        action: Sequence[np.ndarray] | np.ndarray,
        *,
        terminal: Sequence[np.ndarray] | np.ndarray | None = None,
        reward: Sequence[np.ndarray] | np.ndarray | None = None,
        physics: Sequence[np.ndarray] | np.ndarray | None = None,
        domain: str | None = None,
    ) -> "Dataset":
        """Make a dataset of episodes: obs[i] is [T+1, O], action[i] is [T, A], any T.

        `terminal[i]` [T] is true where obs t+1 is terminal (not at a time limit);
        `reward[i]` is [T] and `physics[i]` [T+1, P]. Lists, or arrays with episodes as axis 0.
        `domain` names the robot, if it is one that the project knows.
        """
        if len(obs) != len(action) or not len(obs):
            raise DataError(f"{len(obs)} obs and {len(action)} actions: expected as many of both")
        episodes = []
        for i, one in enumerate(action):
            ended = None if terminal is None else np.asarray(terminal[i], bool)
            alive = np.ones(len(one), np.float32) if ended is None else ~ended
            rest = [None if x is None else np.asarray(x[i]) for x in (reward, physics)]
            raw = Episode(np.asarray(obs[i]), np.asarray(one), alive, *rest)
            keys = {field: Key(field) for field in Episode._fields} | {"discount": Key("terminal")}
            episodes.append(checked(f"number {i}", raw, keys, len(raw.action)))
        return cls.from_episodes(episodes, domain=domain)

    @classmethod
    def from_episodes(cls, episodes: Sequence[Episode], **others: Any) -> "Dataset":
        """Pad checked episodes to the longest and put them into arrays."""
        length = np.asarray([len(episode.action) for episode in episodes], np.int32)
        fields: dict[str, Any] = {}
        for field, first in episodes[0]._asdict().items():
            if first is not None:
                rows = length.max() + (field in STATES)
                fields[field] = np.zeros((len(length), rows, *first.shape[1:]), first.dtype)
                for target, episode in zip(fields[field], episodes, strict=True):
                    value = getattr(episode, field)
                    if value is None or value.shape[1:] != first.shape[1:]:
                        found = None if value is None else value.shape[1:]
                        raise DataError(f"{field} {found}: expected {first.shape[1:]}, as before")
                    target[: len(value)] = value
        return cls(length=length, **fields, **others)

    @property
    def num_episodes(self) -> int:
        """Count the episodes."""
        return len(self.length)

    @property
    def num_transitions(self) -> int:
        """Count the transitions."""
        return int(self.length.sum())

    @property
    def spec(self) -> Spec:
        """Return the widths that networks are built from."""
        return Spec(self.obs.shape[-1], self.action.shape[-1])

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes, each without its padding."""
        for i, steps in enumerate(self.length):
            values: list[Any] = []
            for field in Episode._fields:
                whole = getattr(self, field)
                values.append(None if whole is None else whole[i, : steps + (field in STATES)])
            yield Episode(*values)

    def fingerprint(self) -> str:
        """Return a checksum of everything that training reads; a damaged store is an error."""
        self.verify()
        crc = 0
        for array in (self.obs, self.action, self.discount):
            for episode in array:
                crc = zlib.crc32(np.ascontiguousarray(episode).data, crc)
        return f"{zlib.crc32(np.ascontiguousarray(self.length).data, crc):08x}"

    def verify(self) -> None:
        """Compare every episode with the checksums of its store, if it comes from a store."""
        if self.packed is None:
            return
        folder, names, sums = self.packed

        def one(field: str) -> None:
            for i, steps in enumerate(self.length):
                rows = getattr(self, field)[i, : steps + (field in STATES)]
                found, wanted = zlib.crc32(np.ascontiguousarray(rows).data), int(sums[field][i])
                if found != wanted:
                    raise DamageError(
                        f"{folder / field}.npy#{names[i]}", field, f"checksum {wanted:08x}",
                        f"{found:08x}: delete '{folder}' to pack it anew",
                    )  # fmt: skip

        with ThreadPoolExecutor() as pool:
            list(pool.map(one, sums))

    def reached(self, num: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Draw (episode, row) of states that an action reached, without replacement."""
        flat = np.flatnonzero(np.arange(self.action.shape[1])[None] < self.length[:, None])
        num = min(num, flat.size)
        picked = np.random.default_rng(seed).choice(flat, num, replace=False)
        episode, step = np.divmod(picked, self.action.shape[1])
        return episode, step + 1

    def __repr__(self) -> str:
        """Return the dataset's sizes in one line."""
        return (
            f"Dataset({self.domain or 'unknown domain'}, {self.num_episodes} episodes, "
            f"{self.num_transitions} transitions, obs {self.spec.obs_dim}, "
            f"action {self.spec.action_dim}, from {self.source})"
        )


def guess_domain(fields: Mapping[str, np.ndarray]) -> str | None:
    """Return the domain with these widths; only for ExORL, since other robots may share them."""
    for name, domain in DOMAINS.items():
        known = {"obs": domain.obs_dim, "action": domain.action_dim, "physics": domain.physics_dim}
        if all(fields[k].shape[-1] == v for k, v in known.items() if k in fields):
            return name
    return None
