"""Autoencoder: phi keeps what a decoder f needs to reconstruct the state.

    loss = mean (f(phi(s)) - s)^2 + w ortho(phi(s))

The mean is over the batch and the coordinates of s, in the units of the (normalised) data.
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


def aenc_loss(
    decoded: Float[Array, "batch obs"], obs: Float[Array, "batch obs"]
) -> Float[Array, ""]:
    """Compare decoded states with the states."""
    return jnp.mean((decoded - obs) ** 2)


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the autoencoder."""
    decoder = networks.mlp((config.dim,), config.hidden, spec.obs_dim)

    def objective(online, target, batch, key):
        phi = online.phi(batch.obs)
        error = aenc_loss(online.decoder(phi), batch.obs)
        return error, phi, {"reconstruction": error}

    return from_objective(config, spec, {"decoder": decoder}, objective)
