"""How a trained policy acts: by its actor alone, or by what critics think best among a few.

    a = argmax_{a' in {pi_i(s, z)} + C} mean_i Q_i(s, a', z)
    i one of `policy.ensemble` learners,   C = `policy.candidates` corners of {-1, 1}^A

The actor follows the critic's slope at its own action and so ends at a near peak, or stands still;
the critic compares actions far apart as well. That scored more where the actor stands still (the
walker), and less where it does well (the cheetah): docs/results/walker.md. The learners of an
ensemble have their own starts and batches. The aim is that their critics err in different places,
so that the mean errs less. Q is the critics' value that training's targets take
(`policy.pessimism`). Corners and ensembles are departures from the paper: with one learner and no
corners the actor acts, as in TD3.

What acts is one tree: the actor's parameters, or {"actor": ..., "critic": ...} where critics
choose; of an ensemble, axis 0 of each array is the learner.
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
from zsrl_jax.seeds import take_seed
from zsrl_jax.types import LearnerState, Spec

DRAWN = 0  # seed of the corners, where there are more than are asked for


def corners(action_dim: int, number: int) -> Float[np.ndarray, "n action"]:
    """Return `number` different corners of the action box, always the same; or all there are."""
    if 2**action_dim <= number:
        return np.array(list(itertools.product([-1.0, 1.0], repeat=action_dim)), np.float32)
    places = np.random.default_rng(DRAWN).choice(2**action_dim, number, replace=False)
    bits = (places[:, None] >> np.arange(action_dim)[None]) & 1
    return (2.0 * bits - 1.0).astype(np.float32)


def chooses(config: ConfigDict) -> bool:
    """Tell whether critics choose the action, so that they are part of what acts."""
    return bool(config.candidates or config.ensemble > 1)


def params_of(config: ConfigDict, state: LearnerState) -> Any:
    """Return the parameters to act with: of the averaged actor if there is one, and the critic."""
    actor = state.target_params.get("actor", state.params["actor"])
    return {"actor": actor, "critic": state.params["critic"]} if chooses(config) else actor


def learners_of(config: ConfigDict, params: Any) -> list[Any]:
    """Return the parameters of each learner of an ensemble; of one learner, a list of one."""
    if config.ensemble == 1:
        return [params]
    return [take_seed(params, i) for i in range(config.ensemble)]


def make_value(
    config: ConfigDict, spec: Spec, dim: int, pessimism: float | None = None
) -> Callable[..., Float[Array, " row"]]:
    """Make value(critics, obs, action, z): the mean over an ensemble of what targets take of Q.

    Another `pessimism` than the targets' can be asked for.
    """
    nets = td3.make_nets(config, spec, dim)
    pessimism = config.pessimism if pessimism is None else pessimism

    def value(critics: Any, obs: Array, action: Array, z: Array) -> Array:
        own = [nets.value(one, obs, action, z) for one in learners_of(config, critics)]
        return jnp.mean(jnp.stack([td3.cautious(q, pessimism) for q in own]), axis=0)

    return value


def make(config: ConfigDict, spec: Spec, dim: int) -> Callable[[Any, Array, Array], Array]:
    """Make act(params, obs, z) -> action, of states [..., O] with a z each."""
    actor = td3.make_nets(config, spec, dim).actor
    if not chooses(config):
        return actor.apply
    value = make_value(config, spec, dim)
    others = jnp.asarray(corners(spec.action_dim, config.candidates))

    def choose(params: Any, obs: Array, z: Array) -> Array:
        own = [actor.apply(one, obs, z) for one in learners_of(config, params["actor"])]
        tried = jnp.broadcast_to(others[:, None], (others.shape[0], *own[0].shape))
        every = jnp.concatenate([jnp.stack(own), tried])
        worth = jax.vmap(lambda action: value(params["critic"], obs, action, z))(every)
        best = jnp.argmax(worth, axis=0)  # what hangs on s and z alone is computed once
        return jnp.take_along_axis(every, best[None, :, None], axis=0)[0]

    def act(params: Any, obs: Array, z: Array) -> Array:
        num = math.prod(obs.shape[:-1])  # told, because an oracle's z has a width of 0
        rows = [x.reshape(num, x.shape[-1]) for x in (obs, z)]
        return choose(params, *rows).reshape(*obs.shape[:-1], spec.action_dim)

    return act
