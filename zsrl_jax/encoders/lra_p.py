"""Low-rank approximation of the transition probability (Touati, Rapin and Ollivier, 2022).

    P(ds' | s, a) = f(s, a).phi(s') rho(ds')
    loss = 1/2 mean_{i!=j} (f(s_i, a_i).phi(s'_j))^2 - mean_i f(s_i, a_i).phi(s'_i)
           + w ortho(phi(s'))

rho is the distribution of the states that the data reaches.
"""

from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import networks
from zsrl_jax.encoders import losses
from zsrl_jax.encoders.base import from_objective
from zsrl_jax.types import Encoder, Spec


def default_config() -> ConfigDict:
    """Return the fields that only this encoder has: none."""
    return ConfigDict()


def lra_p_loss(
    left: Float[Array, "batch d"], phi: Float[Array, "batch d"]
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """Fit f phi^T, the rows f(s_i, a_i) by the columns phi(s'_j), to the density of s'."""
    off = losses.off_diagonal_square(left, phi)
    on = losses.diagonal_product(left, phi)
    return 0.5 * off - on, {"off_diagonal": off, "diagonal": on}


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the approximation of the transition probability."""
    left = networks.mlp((spec.obs_dim, spec.action_dim), config.hidden, config.dim)

    def objective(online, target, batch, key):
        phi = online.phi(batch.next_obs)
        loss, terms = lra_p_loss(online.left(batch.obs, batch.action), phi)
        return loss, phi, terms

    return from_objective(config, spec, {"left": left}, objective)
