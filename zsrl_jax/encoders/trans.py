"""Transition model: phi keeps what is needed, with the action, to predict the next state.

    loss = mean (f(phi(s), a) - s')^2 + w ortho(phi(s))

The mean is over the batch and the coordinates of s', in the units of the (normalised) data.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import networks
from zsrl_jax.encoders.base import from_objective
from zsrl_jax.types import Encoder, Spec


def default_config() -> ConfigDict:
    """Return the fields that only this encoder has: none."""
    return ConfigDict()


def trans_loss(
    predicted: Float[Array, "batch obs"], next_obs: Float[Array, "batch obs"]
) -> Float[Array, ""]:
    """Compare predicted states with the states reached."""
    return jnp.mean((predicted - next_obs) ** 2)


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the transition model."""
    predictor = networks.mlp((config.dim, spec.action_dim), config.hidden, spec.obs_dim)

    def objective(online, target, batch, key):
        phi = online.phi(batch.obs)
        error = trans_loss(online.predictor(phi, batch.action), batch.next_obs)
        return error, phi, {"prediction": error}

    return from_objective(config, spec, {"predictor": predictor}, objective)
