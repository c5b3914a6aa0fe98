"""A dataset on the host, the normaliser fitted to it, and its way to the device."""

import dataclasses
import zlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from zsrl_jax.types import Spec, Store


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Episodes of one robot without rewards: obs[episode, T+1, O], action[episode, T, A].

    Action t leads from obs t to obs t+1, whatever the file's own offset. Episodes shorter than
    the longest are padded; `length` has their steps.
    """

    obs: Float[np.ndarray, "episode row obs"]
    action: Float[np.ndarray, "episode step action"]
    discount: Float[np.ndarray, "episode step"]
    length: Int[np.ndarray, " episode"]
    physics: Float[np.ndarray, "episode row physics"] | None = None
    domain: str | None = None
    source: str = "memory"  # where it came from, written into every result

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

    def fingerprint(self) -> str:
        """Return a checksum of everything that training reads."""
        crc = 0
        for array in (self.obs, self.action, self.discount, self.length):
            crc = zlib.crc32(np.ascontiguousarray(array).data, crc)
        return f"{crc:08x}"

    def reached(self, num: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Draw places (episode, row) of states that an action reached, without replacement."""
        flat = np.flatnonzero(np.arange(self.action.shape[1])[None] < self.length[:, None])
        num = min(num, flat.size)
        picked = np.random.default_rng(seed).choice(flat, num, replace=False)
        episode, step = np.divmod(picked, self.action.shape[1])
        return episode, step + 1

    def __repr__(self) -> str:
        """Tell the size in one line."""
        return (
            f"Dataset({self.domain or 'unknown domain'}, {self.num_episodes} episodes, "
            f"{self.num_transitions} transitions, obs {self.spec.obs_dim}, "
            f"action {self.spec.action_dim}, from {self.source})"
        )


class Normalizer(NamedTuple):
    """x -> clip((x - mean) / scale, -clip, clip); clip is infinite where nothing is normalised."""

    mean: Float[Array, " obs"]
    scale: Float[Array, " obs"]
    clip: Float[Array, ""]

    def __call__(self, obs: Float[Array, "*batch obs"]) -> Float[Array, "*batch obs"]:
        """Normalise observations of any batch shape."""
        shape = (1,) * (obs.ndim - 1) + self.mean.shape
        value = (obs - self.mean.reshape(shape)) / self.scale.reshape(shape)
        return jnp.clip(value, -self.clip, self.clip)


def fit_normalizer(dataset: Dataset, kind: str, clip: float = 10.0) -> Normalizer:
    """Fit mean and deviation of the dataset (`standard`), or the identity (`none`)."""
    width = dataset.spec.obs_dim
    if kind == "none":
        return Normalizer(jnp.zeros(width), jnp.ones(width), jnp.asarray(jnp.inf))
    rows = np.arange(dataset.obs.shape[1])[None] <= dataset.length[:, None]
    total = rows.sum()
    mean = dataset.obs.sum(axis=(0, 1), dtype=np.float64, where=rows[..., None]) / total
    square = np.zeros(width)
    for obs, row in zip(dataset.obs, rows, strict=True):  # an episode at a time: no second copy
        square += ((obs - mean) ** 2).sum(axis=0, where=row[:, None])
    scale = np.maximum(np.sqrt(square / total), 1e-3)
    as_float = lambda x: jnp.asarray(x, jnp.float32)  # noqa: E731
    return Normalizer(as_float(mean), as_float(scale), as_float(clip))


def to_device(dataset: Dataset, normalizer: Normalizer) -> Store:
    """Copy a dataset to the device, observations normalised once and for all."""
    return Store(
        obs=jax.jit(Normalizer.__call__)(normalizer, jnp.asarray(dataset.obs, jnp.float32)),
        action=jnp.asarray(dataset.action, jnp.float32),
        discount=jnp.asarray(dataset.discount, jnp.float32),
        length=jnp.asarray(dataset.length, jnp.int32),
    )
