"""Laplacian features (Wu, Tucker and Nachum, 2018): successive states lie close together.

    loss = mean |phi(s) - phi(s')|^2 + w ortho(phi(s))

Without the second term a constant would be best; with it, phi tends to the smoothest functions on
the graph of states that the data walks on: the low eigenvectors of its Laplacian. As one of the
features of zero-shot RL: Touati, Rapin and Ollivier (2022), whose code takes the mean over the
coordinates of phi where this is the sum, as Wu et al. have it (times 1/2, which w can absorb).
"""

from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax.encoders import losses
from zsrl_jax.encoders.base import from_objective
from zsrl_jax.types import Encoder, Spec


def default_config() -> ConfigDict:
    """Return the fields that only this encoder has: none."""
    return ConfigDict()


def laplacian_loss(
    phi: Float[Array, "batch d"], next_phi: Float[Array, "batch d"]
) -> Float[Array, ""]:
    """Return how far apart successive states are; both ends move."""
    return losses.squared_distance(phi, next_phi)


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the Laplacian features."""

    def objective(online, target, batch, key):
        phi = online.phi(batch.obs)
        distance = laplacian_loss(phi, online.phi(batch.next_obs))
        return distance, phi, {"distance": distance}

    return from_objective(config, spec, {}, objective)
