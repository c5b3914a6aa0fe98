"""One-step forward-backward features: the pair of the behaviour policy alone, no actor inside.

    M = F(s, a) B(s')^T,   Mbar = gamma Fbar(s', a') Bbar(s')^T,   a' the data's own next action
    loss = 1/2 mean_{i!=j} (M - Mbar)_ij^2 - mean_i M_ii + w ortho(B)
    phi  = C^-1 B,   C = E[B B^T] over the dataset

Nothing is maximised, so nothing runs away: one step of policy improvement is left to the policy
that is trained on phi. The source is one-step FB (arXiv 2602.11399) and its public code. There B
also sees the action, F is the mean of two networks, M_ii is weighted by 1 - gamma (which scales F
alone), and w is 0. Here B is of the state reached and w is 1, as for every encoder. The last step
of an episode has no next action: the one that led there is taken instead.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import networks
from zsrl_jax.data.sampling import draw_transitions
from zsrl_jax.encoders import losses
from zsrl_jax.encoders.base import from_objective, over_second_moment
from zsrl_jax.types import Encoder, Spec


def default_config() -> ConfigDict:
    """Return the fields that only this encoder has: none."""
    return ConfigDict()


def fb_onestep_loss(
    forward: Float[Array, "batch d"],
    backward: Float[Array, "batch d"],
    next_forward: Float[Array, "batch d"],
    next_backward: Float[Array, "batch d"],
    discount: Float[Array, " batch"],
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """Fit F B^T to the data's successor measure; `next_*` are target networks."""
    target = jax.lax.stop_gradient(discount[:, None] * (next_forward @ next_backward.T))
    off = losses.off_diagonal_error(forward, backward, target)
    on = losses.diagonal_product(forward, backward)
    return 0.5 * off - on, {"off_diagonal": off, "diagonal": on}


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the one-step forward-backward encoder; B is the network `phi`."""
    forward = networks.mlp((spec.obs_dim, spec.action_dim), config.hidden, config.dim)

    def objective(online, target, batch, key):
        now, next_action = batch
        backward = online.phi(now.next_obs)
        ahead = target.forward(now.next_obs, next_action), target.phi(now.next_obs)
        discount = config.discount * now.discount
        here = online.forward(now.obs, now.action)
        loss, terms = fb_onestep_loss(here, backward, *ahead, discount)
        return loss, backward, terms

    def sample(key, store):
        batch = draw_transitions(key, store, config.batch)
        step = jnp.minimum(batch.step + 1, store.length[batch.episode] - 1)
        return batch, store.action[batch.episode, step]

    targets = ("phi", "forward")
    made = from_objective(config, spec, {"forward": forward}, objective, targets, sample)
    freeze, features = over_second_moment(made.features)
    return made._replace(
        freeze=lambda key, params, store: freeze(params["phi"], store), features=features
    )
