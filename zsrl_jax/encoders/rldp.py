"""Regularised latent dynamics prediction (Jajoo et al., 2026): roll a latent model forward.

    h_0 = phi(s_t),   h_{i+1} = g(h_i, a_{t+i})
    loss = mean_{i < n} |h_{i+1} - sg phibar(s_{t+i+1})|^2 + w ortho(phi(s_t))

`byol` over `horizon` n steps: the model sees its own predictions, so phi must hold what lies
further ahead. The term that keeps the features apart is the paper's point; here every encoder has
it. The mean is over the batch and its steps; steps behind an episode's end do not count.

What this relies on: the paper's abstract and the method's form in TD-JEPA's public code (targets
by a moving average, squared norm, orthonormality of phi(s_t)). The horizon there is a setting; 5
is our choice.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import networks
from zsrl_jax.data.sampling import draw_transitions
from zsrl_jax.encoders.base import from_objective
from zsrl_jax.types import Encoder, Spec


class Window(NamedTuple):
    """What follows a state: n actions, the states they lead to, and which of them exist."""

    action: Float[Array, "batch n action"]
    reached: Float[Array, "batch n obs"]
    inside: Float[Array, "batch n"]  # 0 behind the episode's end


def default_config() -> ConfigDict:
    """Return the fields that only this encoder has."""
    return ConfigDict({"horizon": 5})  # steps that the latent model is rolled forward


def rldp_loss(
    rolled: Float[Array, "batch n d"],
    reached: Float[Array, "batch n d"],
    inside: Float[Array, "batch n"],
) -> Float[Array, ""]:
    """Compare rolled features with those of the states reached, which are constants."""
    error = jnp.sum((rolled - jax.lax.stop_gradient(reached)) ** 2, axis=-1)
    return jnp.sum(inside * error) / jnp.sum(inside)


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the rolled latent model."""
    model = networks.mlp((config.dim, spec.action_dim), config.hidden, config.dim)

    def objective(online, target, batch, key):
        now, window = batch
        phi = latent = online.phi(now.obs)
        rolled = []
        for i in range(config.horizon):
            latent = online.model(latent, window.action[:, i])
            rolled.append(latent)
        error = rldp_loss(jnp.stack(rolled, 1), target.phi(window.reached), window.inside)
        return error, phi, {"prediction": error}

    def sample(key, store):
        batch = draw_transitions(key, store, config.batch)
        row, last = batch.step[:, None] + jnp.arange(config.horizon)[None], store.length
        last = last[batch.episode][:, None]
        inside = (row < last).astype(jnp.float32)
        row, episode = jnp.minimum(row, last - 1), batch.episode[:, None]
        return batch, Window(store.action[episode, row], store.obs[episode, row + 1], inside)

    return from_objective(config, spec, {"model": model}, objective, ("phi",), sample)
