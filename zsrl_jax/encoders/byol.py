"""Bootstrap your own latent (Grill et al., 2020): predict the next state's features.

    loss = mean |psi(phi(s), a) - sg phibar(s')|^2 + w ortho(phi(s))

phibar is a moving average of phi that starts as its copy. The paper writes sg phi(s') but calls it
a "target network".
"""

import jax
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import networks
from zsrl_jax.encoders import losses
from zsrl_jax.encoders.base import from_objective
from zsrl_jax.types import Encoder, Spec


def default_config() -> ConfigDict:
    """Return the fields that only this encoder has: none."""
    return ConfigDict()


def byol_loss(
    predicted: Float[Array, "batch d"], next_phi: Float[Array, "batch d"]
) -> Float[Array, ""]:
    """Compare predicted features with those of the state reached, which are constants."""
    return losses.squared_distance(predicted, jax.lax.stop_gradient(next_phi))


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the latent predictor."""
    predictor = networks.mlp((config.dim, spec.action_dim), config.hidden, config.dim)

    def objective(online, target, batch, key):
        phi = online.phi(batch.obs)
        error = byol_loss(online.predictor(phi, batch.action), target.phi(batch.next_obs))
        return error, phi, {"prediction": error}

    return from_objective(config, spec, {"predictor": predictor}, objective, targets=("phi",))
