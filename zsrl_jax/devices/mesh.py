"""Which device holds and computes what: a mesh of devices with the axes `seed` and `data`.

    seed   each device trains its share of the seeds with the program of one device: bit-equal
    data   the rows of a batch are divided among devices; the compiler sums over them, including
           pairs of rows, so results equal those of one device to float error

States, keys, features and task mixtures lie with their seeds, whole on every device of the `data`
axis. The store of the data lies whole on every device. With one device there is no mesh (None),
and the functions here do nothing. No equation depends on any of this.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec
from ml_collections import ConfigDict

from zsrl_jax import seeds
from zsrl_jax.devices import precision
from zsrl_jax.errors import ConfigError

SEED, DATA = "seed", "data"


def num_learners(config: ConfigDict) -> int:
    """Count what is trained in parallel: seeds, or tasks x seeds for an oracle."""
    return config.seeds * (len(config.oracle.tasks) if "oracle" in config else 1)


def shape_of(config: ConfigDict, num_devices: int) -> tuple[int, int]:
    """Return the sizes of the axes (seed, data) that a config asks for, or refuse them."""
    asked = config.get("devices", {"seed": 1, "data": 1})
    learners, seed, data = num_learners(config), asked["seed"], asked["data"]
    if max(seed, 1) * data > num_devices:
        raise ConfigError(
            f"config.devices asks for seed {seed or 'auto'} x data {data}, but JAX sees "
            f"{num_devices} device(s): ask for fewer"
        )
    if seed and learners % seed:
        raise ConfigError(
            f"config.devices.seed is {seed}: expected 0 (auto) or a divisor of the {learners} "
            f"{'tasks x seeds' if 'oracle' in config else 'seeds'}"
        )
    for name, rows in _batches(config).items():
        if rows % data:
            raise ConfigError(
                f"config.devices.data is {data}: expected a divisor of {name} ({rows})"
            )
    most = num_devices // data
    shape = seed or max(n for n in range(1, most + 1) if learners % n == 0), data
    if shape[0] * shape[1] < jax.process_count():
        raise ConfigError(
            f"{jax.process_count()} processes, but seed {shape[0]} x data {shape[1]} needs "
            f"{shape[0] * shape[1]} device(s): start fewer, or set config.devices"
        )
    return shape


def _batches(config: ConfigDict) -> dict[str, int]:
    """Return the rows of each batch that a config trains on."""
    found = {"config.encoder.batch": config.encoder.batch} if "encoder" in config else {}
    if config.policy.get("kind") != "own":
        rows = config.policy.num_tasks * config.policy.per_task
        found["config.policy.num_tasks x per_task"] = rows
    return found


def make(config: ConfigDict) -> Mesh | None:
    """Make the mesh that a config asks for, or None for one device."""
    shape = shape_of(config, jax.device_count())
    if shape == (1, 1) and jax.process_count() == 1:
        return None
    return Mesh(_choose(shape), (SEED, DATA), axis_types=(AxisType.Auto,) * 2)


def _choose(shape: tuple[int, int]) -> np.ndarray:
    """Take devices from all processes in turn; those of one process are neighbours."""
    num, processes = shape[0] * shape[1], jax.process_count()
    by_process = [
        [d for d in jax.devices() if d.process_index == index] for index in range(processes)
    ]
    turns = [d[i] for i in range(max(map(len, by_process))) for d in by_process if i < len(d)]
    return np.array(sorted(turns[:num], key=lambda d: (d.process_index, d.id))).reshape(shape)


def describe(mesh: Mesh | None) -> str:
    """Return one line: which devices work, and how many are idle."""
    shape = (1, 1) if mesh is None else mesh.devices.shape
    idle = jax.device_count() - int(np.prod(shape))
    words = f"devices: seed {shape[0]} x data {shape[1]}, {jax.default_backend()}"
    return words + (f"; {idle} more are idle (config.devices)" if idle else "")


def place(tree: Any, axes: Any, mesh: Mesh | None) -> Any:
    """Place a tree on the mesh: divided by seeds where `axes` is 0, whole on all where it is None.

    `axes` is a prefix of the tree, as for vmap. What is in place already is not moved.
    """
    if mesh is None:
        return tree

    def put(axis, part):
        sharding = NamedSharding(mesh, spec_of(axis))
        return jax.tree.map(lambda leaf: _put(leaf, sharding), part)

    return jax.tree.map(put, axes, tree, is_leaf=lambda axis: axis is None)


def _put(leaf: Any, sharding: NamedSharding) -> Any:
    if getattr(leaf, "sharding", None) == sharding:
        return leaf
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_put(jax.random.key_data(leaf), sharding))
    value = np.asarray(leaf)  # every process has all of it, and gives its devices their part
    return jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])


def local(tree: Any, mesh: Mesh | None) -> Any:
    """Bring a tree, with all seeds, to this process's first device; all processes must call it."""
    if mesh is None:
        return tree

    def bring(leaf):
        if not isinstance(leaf, jax.Array):
            return leaf
        if leaf.is_fully_replicated:
            return leaf.addressable_data(0)
        return jnp.asarray(multihost_utils.process_allgather(leaf, tiled=True))

    return jax.tree.map(bring, tree)


def over_seeds(
    function: Callable,
    in_axes: tuple,
    mesh: Mesh | None,
    donate: tuple[int, ...] = (),
    products: str = precision.EXACT,
    how: str = "auto",
) -> Callable:
    """Compile a function of one seed for many, like `seeds.over_seeds`, on a mesh's devices."""
    if mesh is None:
        return seeds.over_seeds(function, in_axes, donate, how, products)
    program = over_devices(function, in_axes, mesh, donate, products, how)
    return lambda *args: program(*place(args, in_axes, mesh))


def over_devices(
    function: Callable,
    in_axes: tuple,
    mesh: Mesh | AbstractMesh,
    donate: tuple[int, ...] = (),
    products: str = precision.EXACT,
    how: str = "auto",
) -> Any:
    """Compile a function of one seed so that each device runs it for its share of the seeds.

    Arguments must be in place. With an abstract mesh it can be lowered, for devices elsewhere.
    """
    many = seeds.map_seeds(precision.bind(function, products), in_axes, how)
    manual = {SEED} if mesh.shape[DATA] > 1 else {SEED, DATA}  # the compiler divides `data`
    mapped = jax.shard_map(
        many,
        mesh=mesh,
        in_specs=jax.tree.map(spec_of, in_axes, is_leaf=lambda axis: axis is None),
        out_specs=spec_of(0),
        axis_names=manual,
        check_vma=False,
    )
    return jax.jit(mapped, donate_argnums=donate, out_shardings=NamedSharding(mesh, spec_of(0)))


def spec_of(axis: int | None) -> PartitionSpec:
    """Return how a tree with this seed axis is divided: by seeds, or not at all (None)."""
    return PartitionSpec() if axis is None else PartitionSpec(SEED)


def divide(batch: Any) -> Any:
    """Divide the rows of a batch among the devices of the `data` axis, if there is one.

    An array whose rows cannot be divided, such as tasks that many rows share, is whole everywhere.
    """
    size = jax.sharding.get_abstract_mesh().shape.get(DATA, 1)
    if size == 1:
        return batch

    def part(leaf):
        rows = PartitionSpec(DATA) if leaf.shape[0] % size == 0 else PartitionSpec()
        return jax.lax.with_sharding_constraint(leaf, rows)

    return jax.tree.map(part, batch)
