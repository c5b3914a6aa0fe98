"""A dataset on the device: the normaliser fitted to it, and the store that updates read."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from zsrl_jax.data.dataset import Dataset
from zsrl_jax.types import Store


class Normalizer(NamedTuple):
    """x -> clip((x - mean) / scale, -clip, clip); clip is infinite if nothing is normalised."""

    mean: Float[Array, " obs"]
    scale: Float[Array, " obs"]
    clip: Float[Array, ""]

    def __call__(self, obs: Float[Array, "*batch obs"]) -> Float[Array, "*batch obs"]:
        """Normalise observations of any batch shape."""
        shape = (1,) * (obs.ndim - 1) + self.mean.shape
        value = (obs - self.mean.reshape(shape)) / self.scale.reshape(shape)
        return jnp.clip(value, -self.clip, self.clip)


def fit_normalizer(dataset: Dataset, kind: str, clip: float = 10.0) -> Normalizer:
    """Fit the dataset's mean and deviation (`standard`), or return the identity (`none`)."""
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


def to_device(dataset: Dataset, normalizer: Normalizer, device: jax.Device | None = None) -> Store:
    """Copy a dataset to the default or given device; its observations are normalised there."""
    with jax.default_device(device):
        normalizer = jax.device_put(normalizer, device)
        store = Store(
            obs=jax.jit(Normalizer.__call__)(normalizer, jnp.asarray(dataset.obs, jnp.float32)),
            action=jnp.asarray(dataset.action, jnp.float32),
            discount=jnp.asarray(dataset.discount, jnp.float32),
            length=jnp.asarray(dataset.length, jnp.int32),
        )
    return store if device is None else jax.device_put(store, device)


def store_bytes(dataset: Dataset) -> int:
    """Return the size of a dataset's store on the device."""
    return 4 * (dataset.obs.size + dataset.action.size + dataset.discount.size)
