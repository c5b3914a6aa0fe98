"""What a stage's updates read: data on the device, or batches sent to it from the host.

    update t of a seed draws from `update_keys(key, t)`, both on the host and on the device

`Resident` data lies on the device. If the device is too small, the store stays on the host
(`Hosted`): a background thread runs the same drawing function, compiled for the host's processor,
for a window of updates ahead, and sends the result to the device. The scan takes one draw per
update. Keys, places and values are the same either way, and so are the trained parameters. Other
work on the whole data (the frozen encoder's moments, task vectors) runs on the host, once per
stage. Both kinds have the same three methods, so a stage does not know which one it reads.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Key
from ml_collections import ConfigDict

from zsrl_jax import td3
from zsrl_jax.data import Dataset, Normalizer, store_bytes, to_device
from zsrl_jax.devices import mesh as devices
from zsrl_jax.errors import ConfigError
from zsrl_jax.seeds import over_seeds
from zsrl_jax.training.loop import Fed, update_keys
from zsrl_jax.types import Store

AHEAD = 2  # windows drawn before they are asked for


class Resident(NamedTuple):
    """Data that lies on the device as a whole."""

    data: Any
    axes: Any = None  # seed axes, as in `over_seeds`

    def sample_of(self, learner: Any) -> Callable:
        """Return the function that draws a batch: the learner's own."""
        return learner.sample

    def seed_axes(self) -> Any:
        """Return the seed axes of what `windows` yields."""
        return self.axes

    def windows(self, keys: Array, start: int, length: int) -> Iterator[tuple[int, int, Any]]:
        """Yield (first update, updates, data) of a chunk: one window with all of them."""
        yield start, length, self.data


class Hosted(NamedTuple):
    """Data whose store stays on the host: batches are drawn there and finished on the device."""

    store: Store  # on the host's processor
    draw: Callable[[Key[Array, ""], Store], Any]  # (key of an update's batch, store) -> drawn
    finish: Callable[[Key[Array, ""], Fed], Any]  # (the same key, drawn and rest) -> batch
    window: int  # updates sent at once
    rest: Any = None  # the part of the data that is on the device
    rest_axes: Any = None

    def sample_of(self, learner: Any) -> Callable:
        """Return the function that makes a batch from what was drawn on the host."""
        return self.finish

    def seed_axes(self) -> Any:
        """Return the seed axes of what `windows` yields."""
        shared: Any = None
        return Fed(shared, 0, self.rest_axes)

    def windows(self, keys: Array, start: int, length: int) -> Iterator[tuple[int, int, Any]]:
        """Yield (first update, updates, what was drawn for them), window by window."""
        end, flying = start + length, deque[tuple[int, int, Future]]()
        keys = jax.device_put(keys, host())
        with ThreadPoolExecutor(1, "draw_ahead") as pool:
            try:
                while start < end or flying:
                    while start < end and len(flying) < AHEAD:
                        num = min(self.window, end - start)
                        flying.append((start, num, pool.submit(ship, self, keys, start, num)))
                        start += num
                    first, num, drawn = flying.popleft()
                    yield first, num, Fed(jnp.asarray(first), drawn.result(), self.rest)
            finally:
                pool.shutdown(cancel_futures=True)


Feed = Resident | Hosted


def take_drawn(key: Key[Array, ""], fed: Fed) -> Any:
    """Return what was drawn, unchanged: it is the batch of an encoder."""
    return fed.drawn


def policy_halves(draw: Callable, label: Callable) -> tuple[Callable, Callable]:
    """Split a policy's sampling in two: draw transitions on the host, label on the device."""

    def on_host(key, store):
        return draw(td3.sample_keys(key)[1], store)

    def on_device(key, fed):
        return label(td3.sample_keys(key)[0], fed.rest, fed.drawn)

    return on_host, on_device


def place(
    config: ConfigDict,
    dataset: Dataset,
    normalizer: Normalizer,
    sample: Callable,
    mesh: Mesh | None = None,
) -> tuple[Store, Feed]:
    """Return the store, and what an encoder's updates read: the store, or draws on the host."""
    size = store_bytes(dataset)
    if not is_too_large(size, config.device_gib):
        store = devices.place(to_device(dataset, normalizer), None, mesh)
        return store, Resident(store)
    if mesh is not None:
        raise ConfigError(
            f"the store of {size / 2**30:.3g} GiB stays on the host (config.data.device_gib), "
            "which can feed one device: set config.devices.seed=1 and config.devices.data=1"
        )
    store = to_device(dataset, normalizer, host())
    print(f"data: the store of {size / 2**30:.3g} GiB stays on the host (data.device_gib)")
    return store, Hosted(store, sample, take_drawn, config.feed_updates)


def host() -> jax.Device:
    """Return the host's processor as a device; the last one, if a test splits it into several."""
    try:
        return jax.local_devices(backend="cpu")[-1]
    except RuntimeError as error:
        raise ConfigError(
            "JAX does not see the host's processor, which draws batches and scores policies: add "
            "cpu to the list JAX_PLATFORMS, such as JAX_PLATFORMS=cuda,cpu"
        ) from error


def is_too_large(store_bytes: int, budget_gib: float) -> bool:
    """Tell whether a store must stay on the host; budget 0 means half of the device's memory."""
    if not budget_gib:
        stats = jax.local_devices()[0].memory_stats() or {}
        return "bytes_limit" in stats and store_bytes > stats["bytes_limit"] / 2
    return store_bytes > budget_gib * 2**30


def to_accelerator(tree: Any) -> Any:
    """Bring what was computed on the host to the device that trains."""
    return jax.device_put(tree, jax.local_devices()[0])


_programs: dict[tuple[Callable, int], Callable] = {}


def ship(data: Hosted, keys: Array, start: int, num: int) -> Any:
    """Draw on the host for every seed and update, [seed, update, ...]; send it to the device."""
    place = (data.draw, num)
    if place not in _programs:
        draw = data.draw

        def window(key, store, first):
            def one(step):
                return draw(update_keys(key, step)[0], store)

            return jax.lax.map(one, first + jnp.arange(num))

        _programs[place] = over_seeds(window, (0, None, None), how="map")
    first = jax.device_put(jnp.asarray(start), host())
    drawn = _programs[place](keys, data.store, first)
    return to_accelerator(jax.block_until_ready(drawn))
