"""The networks. Each factory gives Net(init, apply); no other file imports flax.

    phi(s)       MLP, L2-normalised to the radius
    actor(s, z)  streams [s], [s, z]: Dense LayerNorm tanh -> Dense ReLU; joined -> ReLU -> tanh
    twin(s,a,z)  streams [s, a], [s, z] of the same form; joined -> two heads ReLU -> out

A `z` of width 0 is allowed: the second stream then sees the state alone. A `z` may also have fewer
rows than the states: each of its rows then serves a block of states, and is multiplied only once.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from zsrl_jax.devices import precision


class Net(NamedTuple):
    """A network as two pure functions: init(key) -> params, apply(params, *inputs) -> output."""

    init: Callable
    apply: Callable


def project(x: Float[Array, "*batch d"], radius: float | Array) -> Float[Array, "*batch d"]:
    """Scale vectors to the sphere of the given radius; the gradient at 0 is finite."""
    square = jnp.sum(x * x, axis=-1, keepdims=True)
    return x * (radius * jax.lax.rsqrt(jnp.maximum(square, 1e-12)))


def sphere_radius(name: str, dim: int) -> float:
    """Return the sphere radius: `sqrt_d` (usual in the field) or `unit` (as in the paper)."""
    return {"sqrt_d": float(dim) ** 0.5, "unit": 1.0}[name]


def repeat_rows(z: Float[Array, "task d"], rows: int) -> Float[Array, "row d"]:
    """Repeat each row of z equally often, until there are `rows` rows."""
    return jnp.repeat(z, rows // z.shape[0], axis=0, total_repeat_length=rows)


class Dense(nn.Module):
    """x W + b, where x is the concatenation of the inputs.

    A last input with fewer rows is multiplied before it is repeated. An input that needs no
    gradient costs no product in the backward pass.
    """

    width: int

    @nn.compact
    def __call__(self, *inputs):
        """Multiply each input by its rows of the kernel, and add."""
        shape = (sum(x.shape[-1] for x in inputs), self.width)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), shape)
        bias = self.param("bias", nn.initializers.zeros, (self.width,))
        *most, last = inputs
        if most and last.shape[:-1] != most[0].shape[:-1]:
            each, few = jnp.split(kernel, [shape[0] - last.shape[-1]])
            out = precision.product(most, each)
            out = out + repeat_rows(precision.product([last], few), out.shape[0])
        else:
            out = precision.product(inputs, kernel)
        return out + bias.reshape((1,) * (out.ndim - 1) + bias.shape)


class _Mlp(nn.Module):
    hidden: Sequence[int]
    out: int
    norm: bool = False  # LayerNorm and tanh in the first layer, instead of ReLU

    @nn.compact
    def __call__(self, *inputs):
        x = inputs
        for i, width in enumerate(self.hidden):
            y = Dense(width)(*x)
            x = (jnp.tanh(nn.LayerNorm()(y)) if self.norm and i == 0 else nn.relu(y),)
        return Dense(self.out)(*x)


class _Stream(nn.Module):
    width: int
    out: int

    @nn.compact
    def __call__(self, *inputs):
        x = Dense(self.width)(*inputs)
        x = jnp.tanh(nn.LayerNorm()(x))
        return nn.relu(Dense(self.out)(x))


@jax.custom_vjp
def tanh_with_way_back(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return a = tanh(x); a gradient that leads a back from its bound is not damped.

    dL/dx = dL/da (1 - a^2) where descent moves a outwards, dL/da where it moves a inwards.

    The plain slope 1 - a^2 is all but 0 at the bounds: an action that has come there stays,
    whatever the critic learns afterwards. (Inverting gradients mend the same: Hausknecht and
    Stone, 2016.)
    """
    return jnp.tanh(x)


def _tanh_and_itself(x):
    action = jnp.tanh(x)
    return action, action


def _damp_outwards(action, gradient):
    return (gradient * jnp.where(gradient * action < 0, 1 - action**2, 1.0),)


tanh_with_way_back.defvjp(_tanh_and_itself, _damp_outwards)


class _Actor(nn.Module):
    width: int
    out: int
    way_back: bool

    @nn.compact
    def __call__(self, obs, z):
        streams = _Stream(self.width, self.width // 2), _Stream(self.width, self.width // 2)
        joined = streams[0](obs), streams[1](obs, z)
        out = Dense(self.out)(nn.relu(Dense(self.width)(*joined)))
        return tanh_with_way_back(out) if self.way_back else jnp.tanh(out)


class _Twin(nn.Module):
    width: int
    out: int
    head_norm: bool

    @nn.compact
    def __call__(self, obs, action, z):
        streams = _Stream(self.width, self.width // 2), _Stream(self.width, self.width // 2)
        joined = streams[0](obs, action), streams[1](obs, z)
        both = Dense(2 * self.width)(*joined)  # the hidden layers of both heads, as one layer
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


def mlp(in_dims: Sequence[int], hidden: Sequence[int], out: int, norm: bool = False) -> Net:
    """Make a ReLU network on the concatenation of its inputs; `norm`: LayerNorm-tanh first."""
    return _net(_Mlp(tuple(hidden), out, norm), *in_dims)


def sphere_mlp(
    in_dim: int, hidden: Sequence[int], out: int, radius: float, norm: bool = False
) -> Net:
    """Make the state network phi: a ReLU network whose output lies on a sphere."""
    net = mlp((in_dim,), hidden, out, norm)
    return Net(net.init, lambda params, obs: project(net.apply(params, obs), radius))


def actor(obs_dim: int, z_dim: int, action_dim: int, width: int, way_back: bool = False) -> Net:
    """Make the two-stream actor: (obs, z) -> action in [-1, 1]; see `tanh_with_way_back`."""
    return _net(_Actor(width, action_dim, way_back), obs_dim, z_dim)


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
