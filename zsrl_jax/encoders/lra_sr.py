"""Low-rank approximation of the successor measure (Touati, Rapin and Ollivier, 2022).

    M(s, ds') = sum_t gamma^t P(s_{t+1} in ds' | s_0 = s) = f(s).phi(s') rho(ds')
    loss = mean_{i!=j} (f(s_i).phi(s'_j) - gamma fbar(s'_i).phibar(s'_j))^2
           - 2 mean_i f(s_i).phi(s'_i) + w ortho(phi(s'))

M belongs to the policy that made the data; rho is the distribution of the states it reaches. Bars
are target networks, of f too: the paper prints a bar over phi alone.
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


def lra_sr_loss(
    left: Float[Array, "batch d"],
    phi: Float[Array, "batch d"],
    next_left: Float[Array, "batch d"],
    target_phi: Float[Array, "batch d"],
    discount: Float[Array, " batch"],
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """Fit f phi^T to the successor measure by its Bellman equation."""
    target = discount[:, None] * (next_left @ target_phi.T)
    off = losses.off_diagonal_error(left, phi, jax.lax.stop_gradient(target))
    on = losses.diagonal_product(left, phi)
    return off - 2 * on, {"off_diagonal": off, "diagonal": on}


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the approximation of the successor measure."""
    left = networks.mlp((spec.obs_dim,), config.hidden, config.dim)

    def objective(online, target, batch, key):
        phi = online.phi(batch.next_obs)
        ahead = target.left(batch.next_obs), target.phi(batch.next_obs)
        discount = config.discount * batch.discount
        loss, terms = lra_sr_loss(online.left(batch.obs), phi, *ahead, discount)
        return loss, phi, terms

    return from_objective(config, spec, {"left": left}, objective, targets=("phi", "left"))
