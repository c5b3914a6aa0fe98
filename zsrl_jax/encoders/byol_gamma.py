"""BYOL-gamma (Lawson et al., 2025): predict a future state's features, and from it the past's.

    loss = mean |psi_f(phi(s_t), a_t) - sg phibar(s_{t+k})|^2
         + mean |psi_b(phi(s_{t+k})) - sg phibar(s_t)|^2 + w ortho(phi(s_t)),   k ~ Geom(1 - gamma)

The paper prints the second term as |psi_b(sg phi(s_{t+k})) - phi(s_t)|^2. Its gradient pulls phi
towards what is easy to predict, such as a constant. The method's authors stop the gradient at the
target, and so do we; `backward_stop_gradient: input` is the printed form.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import networks
from zsrl_jax.data.sampling import draw_futures, draw_transitions
from zsrl_jax.encoders import losses
from zsrl_jax.encoders.base import from_objective
from zsrl_jax.types import Encoder, Spec

CHOICES = {"backward_stop_gradient": ("target", "input")}


def default_config() -> ConfigDict:
    """Return the fields that only this encoder has."""
    return ConfigDict({"backward_stop_gradient": "target"})  # target, or input as the paper prints


def byol_gamma_loss(
    ahead: Float[Array, "batch d"],
    future: Float[Array, "batch d"],
    back: Float[Array, "batch d"],
    past: Float[Array, "batch d"],
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """Compare the predicted with the actual features, of the future and of the past."""
    forward = losses.squared_distance(ahead, future)
    backward = losses.squared_distance(back, past)
    return forward + backward, {"forward": forward, "backward": backward}


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the two-way latent predictor."""
    stop = jax.lax.stop_gradient
    heads = {
        "ahead": networks.mlp((config.dim, spec.action_dim), config.hidden, config.dim),
        "back": networks.mlp((config.dim,), config.hidden, config.dim),
    }

    def objective(online, target, batch, key):
        now, future = batch
        both = jnp.stack([now.obs, future], axis=1)  # one pass over all rows, for larger products
        phi, bar = online.phi(both), stop(target.phi(both))
        ahead = online.ahead(phi[:, 0], now.action), bar[:, 1]
        if config.backward_stop_gradient == "target":
            back = online.back(phi[:, 1]), bar[:, 0]
        else:
            back = online.back(stop(phi[:, 1])), phi[:, 0]
        loss, terms = byol_gamma_loss(*ahead, *back)
        return loss, phi[:, 0], terms

    def sample(key, store):
        key_place, key_ahead = jax.random.split(key)
        batch = draw_transitions(key_place, store, config.batch)
        return batch, draw_futures(key_ahead, store, batch, config.discount)

    return from_objective(config, spec, heads, objective, ("phi",), sample)
