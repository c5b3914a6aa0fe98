"""Inverse model (Pathak et al., 2017): two feature vectors tell the action between them.

    loss = mean (f(phi(s), phi(s')) - a)^2 + w ortho(phi(s))

The mean is over the batch and the coordinates of a. Of the intrinsic curiosity module only the
inverse model is here, as in Touati, Rapin and Ollivier (2022), whose f ends in a tanh; its forward
model is `byol`.
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


def icm_loss(
    told: Float[Array, "batch action"], action: Float[Array, "batch action"]
) -> Float[Array, ""]:
    """Compare the actions that features tell with those that were taken."""
    return jnp.mean((told - action) ** 2)


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the inverse model."""
    between = networks.mlp((config.dim, config.dim), config.hidden, spec.action_dim)

    def objective(online, target, batch, key):
        phi = online.phi(batch.obs)
        error = icm_loss(online.between(phi, online.phi(batch.next_obs)), batch.action)
        return error, phi, {"prediction": error}

    return from_objective(config, spec, {"between": between}, objective)
