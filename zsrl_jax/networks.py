"""The networks, and the only file that knows flax: each factory gives Net(init, apply).

    phi(s)       MLP, L2-normalised to the radius
    actor(s, z)  streams [s], [s, z]: Dense LayerNorm tanh -> Dense ReLU; joined -> ReLU -> tanh
    twin(s,a,z)  streams [s, a], [s, z] of the same form; joined -> two heads ReLU -> out

A `z` of width 0 is allowed: the second stream then sees the state alone.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from zsrl_jax import precision

Dense = functools.partial(nn.Dense, dot_general=precision.multiply)


class Net(NamedTuple):
    """A network as two pure functions: init(key) -> params, apply(params, *inputs) -> output."""

    init: Callable
    apply: Callable


def project(x: Float[Array, "*batch d"], radius: float | Array) -> Float[Array, "*batch d"]:
    """Scale vectors to the sphere of the given radius; the gradient at 0 is finite."""
    square = jnp.sum(x * x, axis=-1, keepdims=True)
    return x * (radius * jax.lax.rsqrt(jnp.maximum(square, 1e-12)))


def sphere_radius(name: str, dim: int) -> float:
    """Return the radius of the sphere: `sqrt_d` (the field's) or `unit` (the paper's letter)."""
    return {"sqrt_d": float(dim) ** 0.5, "unit": 1.0}[name]


class _Mlp(nn.Module):
    hidden: Sequence[int]
    out: int

    @nn.compact
    def __call__(self, *inputs):
        x = jnp.concatenate(inputs, axis=-1)
        for width in self.hidden:
            x = nn.relu(Dense(width)(x))
        return Dense(self.out)(x)


class _Stream(nn.Module):
    width: int
    out: int

    @nn.compact
    def __call__(self, *inputs):
        x = Dense(self.width)(jnp.concatenate(inputs, axis=-1))
        x = jnp.tanh(nn.LayerNorm()(x))
        return nn.relu(Dense(self.out)(x))


class _Actor(nn.Module):
    width: int
    out: int

    @nn.compact
    def __call__(self, obs, z):
        streams = _Stream(self.width, self.width // 2), _Stream(self.width, self.width // 2)
        x = jnp.concatenate([streams[0](obs), streams[1](obs, z)], axis=-1)
        return jnp.tanh(Dense(self.out)(nn.relu(Dense(self.width)(x))))


class _Twin(nn.Module):
    width: int
    out: int
    head_norm: bool

    @nn.compact
    def __call__(self, obs, action, z):
        streams = _Stream(self.width, self.width // 2), _Stream(self.width, self.width // 2)
        x = jnp.concatenate([streams[0](obs, action), streams[1](obs, z)], axis=-1)
        both = Dense(2 * self.width)(x)  # one product for both heads' hidden layers
        heads = []
        for hidden in jnp.split(both, 2, axis=-1):
            hidden = nn.LayerNorm()(hidden) if self.head_norm else hidden
            heads.append(Dense(self.out)(nn.relu(hidden)))
        return jnp.stack(heads)


def _net(module: nn.Module, *dims: int) -> Net:
    def init(key):
        return module.init(key, *(jnp.zeros((1, dim)) for dim in dims))["params"]

    def apply(params, *inputs):
        return module.apply({"params": params}, *inputs)

    return Net(init, apply)


def mlp(in_dims: Sequence[int], hidden: Sequence[int], out: int) -> Net:
    """Make a ReLU network on the concatenation of its inputs."""
    return _net(_Mlp(tuple(hidden), out), *in_dims)


def sphere_mlp(in_dim: int, hidden: Sequence[int], out: int, radius: float) -> Net:
    """Make the state network phi: a ReLU network whose output lies on a sphere."""
    net = mlp((in_dim,), hidden, out)
    return Net(net.init, lambda params, obs: project(net.apply(params, obs), radius))


def actor(obs_dim: int, z_dim: int, action_dim: int, width: int) -> Net:
    """Make the two-stream actor: (obs, z) -> action in [-1, 1]."""
    return _net(_Actor(width, action_dim), obs_dim, z_dim)


def twin(
    obs_dim: int, action_dim: int, z_dim: int, out: int, width: int, head_norm: bool = False
) -> Net:
    """Make the two-stream network with twin heads: (obs, action, z) -> [2, batch, out]."""
    return _net(_Twin(width, out, head_norm), obs_dim, action_dim, z_dim)


def smoothed_action(
    key: Key[Array, ""], action: Float[Array, "*batch a"], noise: float, clip: float
) -> Float[Array, "*batch a"]:
    """Add clipped Gaussian noise to an action and keep it in [-1, 1] (TD3's target smoothing)."""
    disturbance = noise * jax.random.normal(key, action.shape)
    return jnp.clip(action + jnp.clip(disturbance, -clip, clip), -1.0, 1.0)
