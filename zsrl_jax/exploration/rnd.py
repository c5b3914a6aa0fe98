"""Reward-free data of our own: a TD3 agent rewarded by Random Network Distillation.

    error(s') = |f(s') - g(s')|^2        g a fixed random network, f trained to predict it
    reward    = error / running deviation of the error
    agent     = TD3 on that reward alone, over `horizon` steps; no task reward is ever computed

Burda et al. (2018), with the hyperparameters of the public URLB recipe (Laskin et al., 2021) as
defaults (`settings.fields`). Departures: the error is taken at the state reached; many environments
step together. The running deviation counts from the first update. A domain that noise hardly moves
(quadruped) is pushed now and then (`held`, see `pushes`). A share `standing` of the episodes may
start on the feet, where the domain has such a start; evaluation episodes start as the domain says.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import learner, networks, td3
from zsrl_jax.data.sampling import draw_ahead
from zsrl_jax.types import LearnerState, Spec, Store

CLIP = 5.0  # of normalised observations, in deviations


class Moments(NamedTuple):
    """Running mean and sum of squared deviations, by Welford's rule over batches."""

    number: Float[Array, ""]
    mean: Float[Array, "*shape"]
    square: Float[Array, "*shape"]

    def add(self, batch: Float[Array, "batch *shape"]) -> "Moments":
        """Take in a batch of values."""
        size = batch.shape[0]
        mean = jnp.mean(batch, axis=0)
        square = jnp.sum((batch - mean[None]) ** 2, axis=0)
        total = self.number + size
        delta = mean - self.mean
        return Moments(
            total,
            self.mean + delta * size / total,
            self.square + square + delta**2 * self.number * size / total,
        )

    def deviation(self) -> Float[Array, "*shape"]:
        """Return the standard deviation, never 0."""
        return jnp.sqrt(self.square / jnp.maximum(self.number, 1.0)) + 1e-6


class ExplorerState(NamedTuple):
    """The exploring agent and its running statistics."""

    learner: LearnerState
    obs: Moments
    error: Moments


SHOWN = ("explore/critic_loss", "explore/error", "explore/q", "explore/reward")


class Explorer(NamedTuple):
    """init(key) -> state; update(state, key, store); act(state, key, obs) -> action."""

    init: Callable
    update: Callable
    act: Callable


def normalise(moments: Moments, obs: Float[Array, "batch obs"]) -> Float[Array, "batch obs"]:
    """Normalise observations by the statistics so far."""
    return jnp.clip((obs - moments.mean[None]) / moments.deviation()[None], -CLIP, CLIP)


def make_error(rnd: networks.Net) -> Callable:
    """Make error(predictor, params, obs): how badly the random network is predicted."""

    def error(predictor, params, obs):
        aim = jax.lax.stop_gradient(rnd.apply(params["random"], obs))
        return jnp.mean((rnd.apply(predictor, obs) - aim) ** 2, axis=-1)

    return error


def make_learner(config: ConfigDict, nets: td3.Nets, rnd: networks.Net) -> learner.Learner:
    """Make the learner: the predictor's step and TD3's two, on a PolicyBatch without tasks."""
    error, rate = make_error(rnd), config.learning_rate

    def init_params(key):
        keys = jax.random.split(key, 4)
        return {
            "actor": nets.actor.init(keys[0]),
            "critic": nets.critic.init(keys[1]),
            "predictor": rnd.init(keys[2]),
            "random": rnd.init(keys[3]),
        }

    def predictor_step(part, params, target_params, batch, key):
        loss = jnp.mean(error(part, params, batch.transition.next_obs))
        return loss, {"explore/error": loss}

    steps = [
        learner.Step("predictor", predictor_step, rate),
        learner.Step("critic", td3.make_critic_step(nets, config, "explore"), rate),
        learner.Step("actor", td3.make_actor_step(nets, 0.0, "explore"), rate),
    ]
    return learner.make(init_params, steps, {"critic": config.target_rate})


def make(config: ConfigDict, spec: Spec) -> Explorer:
    """Bind a config to the exploring agent."""
    actor = networks.actor(spec.obs_dim, 0, spec.action_dim, config.width)
    critic = networks.twin(spec.obs_dim, spec.action_dim, 0, 1, config.width)
    rnd = networks.mlp((spec.obs_dim,), (config.rnd_width, config.rnd_width), config.rnd_dim)
    init_learner, descend = make_learner(config, td3.Nets(actor, critic, "scalar"), rnd)
    error = make_error(rnd)

    def init(key):
        zeros, zero = jnp.zeros(spec.obs_dim), jnp.zeros(())
        return ExplorerState(
            init_learner(key), Moments(zero, zeros, zeros), Moments(zero, zero, zero)
        )

    def update(state: ExplorerState, key, store: Store):
        key_batch, key_update = jax.random.split(key)
        drawn = draw_ahead(key_batch, store, config.batch, config.horizon, config.discount)
        seen, batch = state.obs.add(drawn.reached[:, 0]), drawn.start
        batch = batch._replace(
            obs=normalise(seen, batch.obs), next_obs=normalise(seen, batch.next_obs)
        )
        params, reached = state.learner.params, drawn.reached.reshape(-1, spec.obs_dim)
        novelty = error(params["predictor"], params, normalise(seen, reached))
        novelty = novelty.reshape(config.batch, config.horizon)
        errors = state.error.add(novelty[:, 0])
        reward = jnp.sum(drawn.weight * novelty, axis=1) / errors.deviation()
        paid = td3.PolicyBatch(batch, jnp.zeros((config.batch, 0)), reward)
        new, metrics = descend(state.learner, paid, key_update, 0)
        return ExplorerState(new, seen, errors), {name: metrics[name] for name in SHOWN}

    def act(state, key, obs):
        scaled = normalise(state.obs, obs)
        nothing = jnp.zeros((*scaled.shape[:-1], 0))
        action = actor.apply(state.learner.params["actor"], scaled, nothing)
        noisy = action + config.noise * jax.random.normal(key, action.shape)
        return jnp.clip(noisy, -1.0, 1.0)

    return Explorer(init, update, act)
