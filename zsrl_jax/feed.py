"""Feed the scan from the host, where the device is too small for the data.

    update t of a seed draws from split(fold_in(key, t)), here as on the device

The store stays on the host. A background thread runs the very function that draws on the device,
compiled for the host's processor, for a window of updates ahead, and ships what it drew; the scan
takes a draw an update. Keys, places and values are those of a resident store, so that a run gives
the same parameters either way. Whatever else reads the whole data (the frozen encoder's moments,
task vectors) runs on the host too, once a stage.
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

from zsrl_jax import mesh as devices
from zsrl_jax.data import Dataset, Normalizer, store_bytes, to_device
from zsrl_jax.errors import ConfigError
from zsrl_jax.loop import Fed, over_seeds
from zsrl_jax.types import Store

AHEAD = 2  # windows drawn before they are asked for


class Hosted(NamedTuple):
    """Data whose store stays on the host: how it is drawn there and finished on the device."""

    store: Store  # on the host's processor
    draw: Callable[[Key[Array, ""], Store], Any]  # (key of an update's batch, store) -> drawn
    finish: Callable[[Key[Array, ""], Fed], Any]  # (the same key, drawn and rest) -> batch
    window: int  # updates shipped at once
    rest: Any = None  # what of the data is on the device
    rest_axes: Any = None


def take_drawn(key: Key[Array, ""], fed: Fed) -> Any:
    """Return what was drawn, as it is: the batch of an encoder."""
    return fed.drawn


def halves(draw: Callable, label: Callable) -> tuple[Callable, Callable]:
    """Part a policy's sample in two, each with its half of the key: drawn on the host, labelled."""

    def on_host(key, store):
        return draw(jax.random.split(key)[1], store)

    def on_device(key, fed):
        return label(jax.random.split(key)[0], fed.rest, fed.drawn)

    return on_host, on_device


def place(
    config: ConfigDict,
    dataset: Dataset,
    normalizer: Normalizer,
    sample: Callable,
    mesh: Mesh | None = None,
) -> tuple[Store, Any]:
    """Return the store, and what an encoder's updates read: it, or draws of it on the host."""
    size = store_bytes(dataset)
    if not is_too_large(size, config.device_gib):
        store = devices.place(to_device(dataset, normalizer), None, mesh)
        return store, store
    if mesh is not None:
        raise ConfigError(
            f"the store of {size / 2**30:.3g} GiB stays on the host (config.data.device_gib), from "
            "where one device can be fed: set config.devices.seed=1 and config.devices.data=1"
        )
    store = to_device(dataset, normalizer, host())
    print(f"data: the store of {size / 2**30:.3g} GiB stays on the host (data.device_gib)")
    return store, Hosted(store, sample, take_drawn, config.feed_updates)


def host() -> jax.Device:
    """Return the host's processor as a device; the last, where a test has it in several."""
    return jax.local_devices(backend="cpu")[-1]


def is_too_large(store_bytes: int, budget_gib: float) -> bool:
    """Tell whether a store must stay on the host: budget 0 is half of the device's memory."""
    if not budget_gib:
        facts = jax.local_devices()[0].memory_stats() or {}
        return "bytes_limit" in facts and store_bytes > facts["bytes_limit"] / 2
    return store_bytes > budget_gib * 2**30


def to_accelerator(tree: Any) -> Any:
    """Bring what was computed on the host to the device that trains."""
    return jax.device_put(tree, jax.local_devices()[0])


def pieces(data: Any, keys: Array, start: int, length: int) -> Iterator[tuple[int, int, Any]]:
    """Yield (first update, updates, data) that make up a chunk: one, or a window at a time."""
    if not isinstance(data, Hosted):
        yield start, length, data
        return
    end, flying = start + length, deque[tuple[int, int, Future]]()
    keys = jax.device_put(keys, host())
    with ThreadPoolExecutor(1, "feed") as pool:
        try:
            while start < end or flying:
                while start < end and len(flying) < AHEAD:
                    num = min(data.window, end - start)
                    flying.append((start, num, pool.submit(_ship, data, keys, start, num)))
                    start += num
                first, num, drawn = flying.popleft()
                yield first, num, Fed(jnp.asarray(first), drawn.result(), data.rest)
        finally:
            pool.shutdown(cancel_futures=True)


def axes(data: Any, data_axes: Any) -> Any:
    """Return the seed axes of the data that `pieces` yields."""
    shared: Any = None
    return Fed(shared, 0, data.rest_axes) if isinstance(data, Hosted) else data_axes


def sampling(learner: Any, data: Any) -> Callable:
    """Return the learner's sample function, or the one that takes what was drawn on the host."""
    return data.finish if isinstance(data, Hosted) else learner.sample


_programs: dict[tuple[Callable, int], Callable] = {}


def _ship(data: Hosted, keys: Array, start: int, num: int) -> Any:
    """Draw on the host for every seed and update, [seed, update, ...], and send it off."""
    place = (data.draw, num)
    if place not in _programs:
        draw = data.draw

        def window(key, store, first):
            def one(step):
                return draw(jax.random.split(jax.random.fold_in(key, step))[0], store)

            return jax.lax.map(one, first + jnp.arange(num))

        _programs[place] = over_seeds(window, (0, None, None), how="map")
    first = jax.device_put(jnp.asarray(start), host())
    drawn = _programs[place](keys, data.store, first)
    return to_accelerator(jax.block_until_ready(drawn))
