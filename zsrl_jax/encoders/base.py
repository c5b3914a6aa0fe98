"""From one loss to an encoder: phi, its heads, their targets, and the orthonormality term.

    loss = objective(phi, heads; batch) + w ortho(phi)

`objective(online, target, batch, key)` returns (value, phi of the batch, terms). `online` holds
each network as a function: online.phi(obs), online.head(...). `target` holds those that are named
in `targets`: moving averages of the online networks, which start as copies.
"""

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import jax
import jax.numpy as jnp
from jaxtyping import Array
from ml_collections import ConfigDict

from zsrl_jax import learner, networks
from zsrl_jax.data.sampling import draw_transitions
from zsrl_jax.encoders import losses
from zsrl_jax.types import Encoder, Params, Spec


def from_objective(
    config: ConfigDict,
    spec: Spec,
    heads: dict[str, networks.Net],
    objective: Callable,
    targets: Sequence[str] = (),
    sample: Callable | None = None,
    phi: networks.Net | None = None,
) -> Encoder:
    """Make an encoder whose phi (on the sphere, if not given) and heads descend one objective."""
    radius = networks.sphere_radius(config.radius, config.dim)
    phi = phi or networks.sphere_mlp(spec.obs_dim, config.hidden, config.dim, radius)
    nets = {"phi": phi, **heads}

    def bind(params):
        return SimpleNamespace(
            **{name: functools.partial(nets[name].apply, params[name]) for name in params}
        )

    def init_params(key):
        keys = jax.random.split(key, len(nets))
        return {n: net.init(k) for (n, net), k in zip(nets.items(), keys, strict=True)}

    def loss(online, params, target_params, batch, key):
        value, features, terms = objective(bind(online), bind(target_params), batch, key)
        ortho = losses.orthonormality_loss(features)
        total = value + config.orthonormality * ortho
        terms = {"loss": total, "objective": value, "orthonormality": ortho} | terms
        terms = {f"encoder/{name}": term for name, term in terms.items()}
        return total, terms | losses.feature_health(features)

    steps = [learner.Step(learner.ALL, loss, config.learning_rate)]
    rates = dict.fromkeys(targets, config.target_rate)
    init, update = learner.make(init_params, steps, rates)

    def draw(key, store):
        return draw_transitions(key, store, config.batch)

    def freeze(key, params, store):
        return params["phi"]

    return Encoder(init, sample or draw, update, freeze, phi.apply)


def over_second_moment(backward: Callable) -> tuple[Callable, Callable]:
    """Make freeze(params, store) and features(params, obs) of phi = C^-1 B, C = E[B B^T]."""

    def freeze(params, store):
        moment = losses.second_moment(lambda obs: backward(params, obs), store)
        inverse = jnp.linalg.pinv(moment, rtol=1e-6, hermitian=True)
        return {"backward": params, "inverse": inverse}

    def features(params, obs):
        return backward(params["backward"], obs) @ params["inverse"]

    return freeze, features


def reached_features(encoder: Encoder, params: Params, rows: Array) -> Array:
    """Return phi of rows 1, 2, ... of an episode, or of the transitions that led to them."""
    if encoder.of_transitions:
        return encoder.features(params, rows[..., :-1, :], rows[..., 1:, :])
    return encoder.features(params, rows[..., 1:, :])


def row_features(encoder: Encoder, params: Params, rows: Array) -> Array:
    """Return phi of every row of an episode, or of what led to it; nothing leads to row 0."""
    if not encoder.of_transitions:
        return encoder.features(params, rows)
    before = jnp.concatenate([rows[..., :1, :], rows[..., :-1, :]], axis=-2)
    return encoder.features(params, before, rows)
