"""Hilbert representations (HILP; Park, Kreiman and Levine, 2024): distance = steps between states.

    V(s, g) = -|phi(s) - phi(g)|
    y       = -1[s != g] (1 - gamma Vbar(s', g))
    loss    = mean |tau - 1[y < V]| (y - V(s, g))^2 + w ortho(phi(s))
    features of a transition = c (phi(s') - phi(s)):   the task z rewards going its way

Expectile regression (tau = `expectile`) makes V the value of the shortest way that the data knows.
A goal g is a state of any episode with probability `random_goals`, else one k ~ Geom(1 - gamma)
steps ahead. phi is not on the sphere, and w is 0.

The public code trains two phi, weighs an error by the sign that the target networks give it, and
on ExORL takes phi(s) less its mean for features by default; the paper prints the above. At
tau = 1/2 all weights are alike. The constant c gives features the length `radius` on average (root
mean square), like those of other encoders: it scales all rewards alike, so no policy depends on it.
tau, the share of random goals and the discount are those of the public code's runs on ExORL (the
discount is cheetah's; walker's is 0.96).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import networks
from zsrl_jax.data.sampling import draw_futures, draw_states, draw_transitions
from zsrl_jax.encoders.base import from_objective
from zsrl_jax.types import Encoder, Spec

NEAR = 1e-6  # least squared distance, whose root has a finite slope


def default_config() -> ConfigDict:
    """Return the fields that only this encoder has, and its own values of common ones."""
    return ConfigDict(
        {
            "discount": 0.98,
            "orthonormality": 0.0,
            "expectile": 0.5,
            "random_goals": 0.375,  # share of goals from anywhere in the data
        }
    )


def value(x: Float[Array, "batch d"], goal: Float[Array, "batch d"]) -> Float[Array, " batch"]:
    """Return V = -|phi(s) - phi(g)|."""
    return -jnp.sqrt(jnp.maximum(jnp.sum((x - goal) ** 2, axis=-1), NEAR))


def hilp_loss(
    now: Float[Array, " batch"],
    ahead: Float[Array, " batch"],
    apart: Float[Array, " batch"],
    discount: Float[Array, " batch"],
    expectile: float,
) -> Float[Array, ""]:
    """Regress V(s, g) to an expectile of what the next state's target value says."""
    error = jax.lax.stop_gradient(apart * (discount * ahead - 1)) - now
    weight = jnp.where(error >= 0, expectile, 1 - expectile)
    return jnp.mean(weight * error**2)


def make(config: ConfigDict, spec: Spec) -> Encoder:
    """Bind a config to the Hilbert representation."""
    phi = networks.mlp((spec.obs_dim,), config.hidden, config.dim)
    radius = networks.sphere_radius(config.radius, config.dim)

    def objective(online, target, batch, key):
        now, goal = batch
        here = online.phi(now.obs)
        near = value(here, online.phi(goal))
        ahead = value(target.phi(now.next_obs), target.phi(goal))
        apart = jnp.any(now.obs != goal, axis=-1).astype(jnp.float32)
        discount = config.discount * now.discount
        loss = hilp_loss(near, ahead, apart, discount, config.expectile)
        return loss, here, {"distance": -jnp.mean(near)}

    def sample(key, store):
        key_place, key_ahead, key_any, key_pick = jax.random.split(key, 4)
        batch = draw_transitions(key_place, store, config.batch)
        future = draw_futures(key_ahead, store, batch, config.discount)
        anywhere = draw_states(key_any, store, config.batch)
        pick = jax.random.bernoulli(key_pick, config.random_goals, (config.batch, 1))
        return batch, jnp.where(pick, anywhere, future)

    def freeze(key, params, store):
        def add(total, episode):
            obs, length = episode
            step = jnp.diff(phi.apply(params["phi"], obs), axis=0)
            real = (jnp.arange(step.shape[0]) < length)[:, None]
            return total + jnp.sum(jnp.where(real, step, 0.0) ** 2), None

        total, _ = jax.lax.scan(add, jnp.zeros(()), (store.obs, store.length))
        mean = total / jnp.sum(store.length)
        return {"phi": params["phi"], "scale": radius * jax.lax.rsqrt(jnp.maximum(mean, NEAR))}

    def features(params, obs, next_obs):
        step = phi.apply(params["phi"], next_obs) - phi.apply(params["phi"], obs)
        return params["scale"] * step

    made = from_objective(config, spec, {}, objective, ("phi",), sample, phi)
    return made._replace(freeze=freeze, features=features, of_transitions=True)
