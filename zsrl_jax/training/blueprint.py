"""The programs that a run compiles, known from its config and the shape of its data alone.

    programs(config, shape) -> [Program(name, function of one seed, seed axes, shapes, ...)]

No array is made. A program can be lowered for a device that this machine does not have, and
compiled to learn its memory. Functions are those that the stages run.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from ml_collections import ConfigDict

from zsrl_jax import oracle, td3
from zsrl_jax.data import Dataset
from zsrl_jax.devices import mesh, precision
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import ConfigError, DataError
from zsrl_jax.seeds import map_seeds, over_seeds, seed_keys
from zsrl_jax.settings.names import OTHER, is_own
from zsrl_jax.tasks import SAMPLERS
from zsrl_jax.training.data_source import given_path
from zsrl_jax.training.divergence import guard
from zsrl_jax.training.encoded import (
    DATA_AXES,
    ONE_BY_ONE,
    OWN,
    SHARED,
    make_all_features,
    make_mean,
    stores_features,
)
from zsrl_jax.training.loop import make_loop
from zsrl_jax.training.task_fit import make_fit, make_sizes
from zsrl_jax.types import Spec, Store


class DataShape(NamedTuple):
    """The sizes of a dataset, of which all shapes follow."""

    episodes: int
    steps: int  # of the longest episode
    spec: Spec

    def store(self) -> Store:
        """Return the shapes of the store on the device."""
        episodes, steps, (obs, action) = self
        return Store(
            _floats(episodes, steps + 1, obs),
            _floats(episodes, steps, action),
            _floats(episodes, steps),
            _whole(episodes),
        )


def _floats(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _whole(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def shape_of(source: Dataset | ConfigDict) -> DataShape:
    """Return the shape of a dataset, or of the data that a config asks for at most."""
    if isinstance(source, Dataset):
        episodes, steps = source.action.shape[:2]
        return DataShape(episodes, steps, source.spec)
    if source.domain == OTHER:
        raise ConfigError("the domain is 'other': the shape of its data is not known from a config")
    domain = DOMAINS[source.domain]
    limit = 0 if _collects(source) else source.data.max_episodes
    episodes = limit or source.data.episodes
    return DataShape(episodes, domain.episode_length, Spec(domain.obs_dim, domain.action_dim))


def _collects(config: ConfigDict) -> bool:
    try:
        return given_path(config, quiet=True) is None
    except DataError:
        return False  # it names data, and what is wrong with that is told when it is opened


class Program(NamedTuple):
    """A function of one seed, and the shapes that it is compiled for, with all seeds."""

    name: str
    function: Callable
    axes: tuple  # seed axes, as in `over_seeds`
    args: tuple
    donate: tuple[int, ...] = ()
    products: str = precision.EXACT
    repeats: int = 0  # updates per call
    how: str = "auto"  # seeds are mapped, as in `map_seeds`

    def jitted(self, shape: tuple[int, int] | None = None) -> tuple[Any, tuple]:
        """Return the jitted function and its arguments' shapes, on (seed, data) devices or one."""
        if shape is None:
            one = over_seeds(self.function, self.axes, self.donate, self.how, self.products)
            return one, self.args
        devices = AbstractMesh(shape, (mesh.SEED, mesh.DATA), axis_types=(AxisType.Auto,) * 2)
        rest = self.donate, self.products, self.how
        many = mesh.over_devices(self.function, self.axes, devices, *rest)
        return many, _shapes_on(self.args, self.axes, devices)

    def result(self) -> Any:
        """Return the shapes of the result."""
        return jax.eval_shape(map_seeds(self.function, self.axes), *self.args)

    def num_learners(self) -> int:
        """Return the number of seeds, or of tasks x seeds of an oracle."""
        own = (arg for arg, axis in zip(self.args, self.axes, strict=True) if axis == 0)
        return int(jax.tree.leaves(next(own))[0].shape[0])

    def shared(self) -> Any:
        """Return the shapes of what all seeds read."""
        is_none = lambda axis: axis is None  # noqa: E731
        pick = lambda axis, part: part if axis is None else None  # noqa: E731
        return jax.tree.map(pick, self.axes, self.args, is_leaf=is_none)


def _shapes_on(args: Any, axes: Any, devices: AbstractMesh) -> Any:
    """Return the shapes of arguments as they lie on devices, like `mesh.place` with arrays."""

    def put(axis, part):
        lies = NamedSharding(devices, mesh.spec_of(axis))
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=lies), part)

    return jax.tree.map(put, axes, args, is_leaf=lambda axis: axis is None)


def chunk(
    name: str, learner: Any, config: ConfigDict, data: Any, axes: Any, learners: int = 0
) -> Program:
    """Return the program of a stage: `log_every` updates of all seeds."""
    keys = jax.eval_shape(lambda: seed_keys(0, learners or config.seeds))
    state = jax.eval_shape(map_seeds(learner.init, (0,)), keys)
    alive = jax.ShapeDtypeStruct(keys.shape, bool)
    args = state, keys, data, _whole(), alive
    length = min(config.log_every, config[name].updates)
    loop = guard(make_loop(learner.sample, learner.update, length))
    return Program(name, loop, (0, 0, axes, None, 0), args, (0,), config.precision, length)


def of_one_device(config: ConfigDict, share: int) -> ConfigDict:
    """Return the config of the seeds that one of `share` devices trains."""
    alone = config.copy_and_resolve_references().unlock()
    alone.seeds = config.seeds // share
    alone.policy.feature_gib = config.policy.feature_gib / share
    return alone


def programs(config: ConfigDict, shape: DataShape, share: int = 1) -> Iterator[Program]:
    """Yield the programs of a run with the store on the device, in their order.

    They are those of one of `share` devices, which divide the seeds (an oracle's tasks x seeds).
    """
    if "oracle" in config:
        yield _oracle(config, shape, share)
        return
    config = of_one_device(config, share)
    encoder, store = ENCODERS[config.encoder.name].make(config.encoder, shape.spec), shape.store()
    first = chunk("encoder", encoder, config, store, SHARED)
    yield first
    if is_own(config):
        return
    state, keys, *_ = first.args
    freeze = Program("freeze", encoder.freeze, (0, 0, None), (keys, state.params, store))
    yield freeze
    frozen, phi = freeze.result(), None
    if stores_features(config, store.obs.shape):
        args = frozen, store.obs
        program = Program("features", make_all_features(encoder), (0, None), args, how=ONE_BY_ONE)
        yield program
        phi = program.result()
    mean = Program("mean", make_mean(encoder, config.encoder.dim), (0, None), (frozen, store))
    yield mean
    data = td3.PolicyData(store, phi, frozen, mean.result(), None)
    fit = Program("tasks", make_fit(encoder, config), (0, 0, DATA_AXES), (keys, keys, data))
    yield fit
    data = data._replace(tasks=fit.result()[0])
    yield Program("task sizes", make_sizes(encoder, config), (0, DATA_AXES), (keys, data))
    sampler = SAMPLERS[config.tasks.sampler]
    parts = config.policy, encoder.features, sampler, encoder.of_transitions
    policy = td3.make(config.policy, shape.spec, config.encoder.dim, td3.make_sample(*parts))
    yield chunk("policy", policy, config, data, DATA_AXES)


def _oracle(config: ConfigDict, shape: DataShape, share: int) -> Program:
    learners = mesh.num_learners(config) // share
    reward = _floats(len(config.oracle.tasks), shape.episodes, shape.steps)
    data = oracle.OracleData(shape.store(), reward, _whole(learners))
    axes = oracle.OracleData(store=SHARED, reward=SHARED, task=OWN)
    policy = oracle.make_policy(config.policy, shape.spec)
    return chunk("policy", policy, config, data, axes, learners)
