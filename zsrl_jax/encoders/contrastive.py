"""Contrastive features: a state finds its own future among those of others (InfoNCE).

    l_ij = cos(phi(s_i), mu(s+_j)) / temperature,     s+ = s_{t+k},  k ~ Geom(1 - gamma)
    loss = -mean_i log( exp l_ii / sum_j exp l_ij ) + w ortho(phi(s))

Touati, Rapin and Ollivier (2022), after van den Oord et al. (2018). Their code has temperature 1,
at which cosines hardly matter beside the orthonormality term: here it is 0.1, a field. Their sum
leaves out j = i; here it is the usual softmax.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import networks
from zsrl_jax.data.sampling import draw_futures, draw_transitions
from zsrl_jax.encoders.base import from_objective
from zsrl_jax.types import Encoder, Spec


def default_config() -> ConfigDict:
    """Return the fields that only this encoder has."""
    return ConfigDict({"temperature": 0.1})  # of the cosines (public code: 1)


def contrastive_loss(
    phi: Float[Array, "batch d"], future: Float[Array, "batch d"], scale: float
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """Return the cross-entropy of finding one's own future; logits are scale phi_i.mu_j."""
    logits = scale * (phi @ future.T)
    own = jnp.diagonal(logits)
    found = jnp.mean(own >= jnp.max(logits, axis=1))
    return jnp.mean(jax.nn.logsumexp(logits, axis=1) - own), {"found": found}


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the contrastive features."""
    radius = networks.sphere_radius(config.radius, config.dim)
    mu = networks.sphere_mlp(spec.obs_dim, config.hidden, config.dim, radius)
    scale = 1 / (config.temperature * radius**2)

    def objective(online, target, batch, key):
        now, future = batch
        phi = online.phi(now.obs)
        loss, terms = contrastive_loss(phi, online.mu(future), scale)
        return loss, phi, terms

    def sample(key, store):
        key_place, key_ahead = jax.random.split(key)
        batch = draw_transitions(key_place, store, config.batch)
        return batch, draw_futures(key_ahead, store, batch, config.discount)

    return from_objective(config, spec, {"mu": mu}, objective, sample=sample)
