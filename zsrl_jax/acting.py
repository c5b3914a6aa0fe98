"""How a trained policy acts: by its actor alone, or by what its critic thinks best among a few.

    a = argmax_{a' in {pi(s, z)} + C} Q(s, a', z),     C = `policy.candidates` corners of {-1, 1}^A

The actor follows the critic's slope at its own action and so ends at a near peak, or stands still;
the critic compares actions far apart as well. That scored more where the actor stands still (the
walker), and less where it does well (the cheetah): docs/results/walker.md. Q is the critics' value
that training's targets take (`policy.pessimism`). A departure from the paper: 0 candidates is TD3.

What acts is one tree: the actor's parameters, or {"actor": ..., "critic": ...} with candidates.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import td3
from zsrl_jax.types import LearnerState, Spec

DRAWN = 0  # seed of the corners, where there are more than are asked for


def corners(action_dim: int, number: int) -> Float[np.ndarray, "n action"]:
    """Return `number` different corners of the action box, always the same; or all there are."""
    if 2**action_dim <= number:
        return np.array(list(itertools.product([-1.0, 1.0], repeat=action_dim)), np.float32)
    places = np.random.default_rng(DRAWN).choice(2**action_dim, number, replace=False)
    bits = (places[:, None] >> np.arange(action_dim)[None]) & 1
    return (2.0 * bits - 1.0).astype(np.float32)


def params_of(config: ConfigDict, state: LearnerState) -> Any:
    """Return the parameters to act with: of the averaged actor if there is one, and the critic."""
    actor = state.target_params.get("actor", state.params["actor"])
    return {"actor": actor, "critic": state.params["critic"]} if config.candidates else actor


def make(config: ConfigDict, spec: Spec, dim: int) -> Callable[[Any, Array, Array], Array]:
    """Make act(params, obs, z) -> action, of states [..., O] with a z each."""
    nets = td3.make_nets(config, spec, dim)
    if not config.candidates:
        return nets.actor.apply
    others = jnp.asarray(corners(spec.action_dim, config.candidates))

    def choose(params: Any, obs: Array, z: Array) -> Array:
        own = nets.actor.apply(params["actor"], obs, z)
        tried = jnp.broadcast_to(others[:, None], (others.shape[0], *own.shape))
        every = jnp.concatenate([own[None], tried])

        def worth(action: Array) -> Array:
            return td3.cautious(nets.value(params["critic"], obs, action, z), config.pessimism)

        best = jnp.argmax(jax.vmap(worth)(every), axis=0)  # what hangs on s and z alone: once
        return jnp.take_along_axis(every, best[None, :, None], axis=0)[0]

    def act(params: Any, obs: Array, z: Array) -> Array:
        num = math.prod(obs.shape[:-1])  # told, because an oracle's z has a width of 0
        rows = [x.reshape(num, x.shape[-1]) for x in (obs, z)]
        return choose(params, *rows).reshape(*obs.shape[:-1], spec.action_dim)

    return act
