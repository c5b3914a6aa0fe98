"""What bench `train` measures: every learner at a size, its data, and its twin in PyTorch."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from zsrl_jax import td3
from zsrl_jax.devices.precision import EXACT
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.errors import DataError
from zsrl_jax.seeds import over_seeds, seed_keys
from zsrl_jax.settings import fields as defaults
from zsrl_jax.settings.scales import ENCODERS as PAPER
from zsrl_jax.tasks import SAMPLERS, Uniform
from zsrl_jax.training.encoded import DATA_AXES
from zsrl_jax.training.loop import make_loop
from zsrl_jax.types import Spec, Store

NAMES = [*PAPER, "policy"]  # those that have a twin in PyTorch
# paper: as in settings/fields.py, fb and policy 1024 wide; laptop: wider and larger than its preset
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"hidden": (16, 16), "batch": 16, "width": 16, "num_tasks": 4, "per_task": 4},
    "laptop": {"batch": 512, "width": 256, "num_tasks": 32, "per_task": 16},
    "paper": {},
}
SPEC, STEPS = Spec(17, 6), 1000  # cheetah's widths


class Case(NamedTuple):
    """A learner of one seed, the data that seeds share or own, and programs to time."""

    name: str
    size: str
    section: ConfigDict
    learner: Any
    data: Any  # of one seed
    axes: Any

    def seeds(self, num: int) -> tuple[Any, Any, Any]:
        """Return states, keys and data of `num` seeds."""
        keys = seed_keys(0, num)
        state = over_seeds(self.learner.init, (0,))(keys)
        if self.name != "policy":
            return state, keys, self.data
        own = {field for field, axis in DATA_AXES._asdict().items() if axis == 0}
        spread = {
            field: jax.tree.map(lambda x: jnp.broadcast_to(x, (num, *x.shape)), part)
            for field, part in self.data._asdict().items()
            if field in own
        }
        return state, keys, self.data._replace(**spread)

    def program(self, num: int, length: int, products: str = EXACT) -> Callable[[], None]:
        """Return a function that runs `length` updates of `num` seeds and waits for them."""
        loop = make_loop(self.learner.sample, self.learner.update, length)
        run = over_seeds(loop, (0, 0, self.axes, None), donate=(0,), products=products)
        return _advance(run, length, *self.seeds(num))

    def constant(self, length: int) -> Callable[[], None]:
        """Return the same for one seed, on a constant batch."""
        batch = jax.jit(self.learner.sample)(jax.random.key(0), self.data)
        loop = make_loop(lambda key, batch: batch, self.learner.update, length)
        state, keys, _ = self.seeds(1)
        run = over_seeds(loop, (0, 0, None, None), donate=(0,))
        return _advance(run, length, state, keys, batch)

    def compiled(self) -> Any:
        """Return one compiled update, which knows its flops and its memory."""

        def one(state, key, data):
            batch = self.learner.sample(key, data)
            return self.learner.update(state, batch, key, 0)

        state = jax.eval_shape(self.learner.init, jax.random.key(0))
        args = state, jax.random.key(0), self.data
        return jax.jit(one, donate_argnums=0).lower(*args).compile()

    def in_torch(self) -> Callable[[], None]:
        """Return one update of the same sizes in PyTorch."""
        import torch

        try:
            from benchmarks import torch_updates
        except ImportError as error:
            raise DataError(
                "PyTorch's updates are in the project's checkout: run there, or use --no_torch"
            ) from error

        store = self.data.store if self.name == "policy" else self.data
        as_torch = lambda x: torch.from_numpy(np.array(x))  # noqa: E731
        obs, action, discount = (as_torch(x) for x in (store.obs, store.action, store.discount))
        phi = as_torch(self.data.phi) if self.name == "policy" else None
        data = torch_updates.Data(obs, action, discount, phi)
        return torch_updates.make(self.name, self.section, data)


def _advance(run: Callable, length: int, state: Any, keys: Any, data: Any) -> Callable[[], None]:
    held = [state, jnp.asarray(0)]  # the current update: every call draws other rows

    def advance() -> None:
        held[0], metrics = run(held[0], keys, data, held[1])
        jax.block_until_ready((held[0], metrics))
        held[1] = held[1] + length

    return advance


def build(name: str, size: str, rows: int = 100_000, **fields: Any) -> Case:
    """Build a learner at a size, with some fields changed, on `rows` rows of noise."""
    config = defaults.get_config("cheetah", "fb" if name == "policy" else name, "uniform")
    given = SIZES[size] | fields
    config.encoder.update({k: v for k, v in given.items() if k in config.encoder})
    config.policy.update({k: v for k, v in given.items() if k in config.policy})
    dim, episodes = config.encoder.dim, max(rows // STEPS, 1)
    store = make_noise(episodes)
    if name != "policy":
        learner = ENCODERS[name].make(config.encoder, SPEC)
        return Case(name, size, config.encoder, learner, store, None)
    sampler = SAMPLERS["uniform"]
    tasks = Uniform(jnp.asarray(dim**0.5), jnp.zeros(dim))
    phi = jnp.asarray(_rows(episodes, STEPS + 1, dim))
    data = td3.PolicyData(store, phi, jnp.zeros(0), jnp.zeros(dim), tasks)
    sample = td3.make_sample(config.policy, lambda params, obs: obs, sampler)
    policy = td3.make(config.policy, SPEC, dim, sample)
    return Case(name, size, config.policy, policy, data, DATA_AXES)


def _rows(*shape: int) -> np.ndarray:
    """Return noise that repeats after a million numbers, so that it is fast to draw."""
    noise = np.random.default_rng(0).normal(size=1_000_003).astype(np.float32)
    return np.resize(noise, shape)


def make_noise(episodes: int) -> Store:
    """Make a store of noise with cheetah's widths."""
    return Store(
        obs=jnp.asarray(_rows(episodes, STEPS + 1, SPEC.obs_dim)),
        action=jnp.tanh(_rows(episodes, STEPS, SPEC.action_dim)),
        discount=jnp.ones((episodes, STEPS)),
        length=jnp.full(episodes, STEPS, jnp.int32),
    )
