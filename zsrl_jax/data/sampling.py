"""Draw transitions, states and futures from a store, on the device.

A transition is (obs[t], action[t], obs[t+1]) of one episode, uniform over all transitions of the
data. In ExORL's files action t+1 and reward t+1 are in the row of the state they led to. The loader
has undone that offset, so row 0's dummy action does not exist here.

The future of a transition at step t is obs[t+k], k ~ Geom(1 - discount), k >= 1. If t+k is beyond
the episode, it is the episode's last state, as in the public code of the field.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.types import Ahead, Store, Transition


def draw_places(
    key: Key[Array, ""], length: Int[Array, " episode"], num: int
) -> tuple[Int[Array, " num"], Int[Array, " num"]]:
    """Draw (episode, step) uniformly over all transitions."""
    end = jnp.cumsum(length)
    flat = jax.random.randint(key, (num,), 0, end[-1])
    episode = jnp.searchsorted(end, flat, side="right")
    return episode, flat - (end[episode] - length[episode])


def gather(store: Store, episode: Int[Array, " num"], step: Int[Array, " num"]) -> Transition:
    """Return the transitions at the given places."""
    return Transition(
        obs=store.obs[episode, step],
        action=store.action[episode, step],
        next_obs=store.obs[episode, step + 1],
        discount=store.discount[episode, step],
        episode=episode,
        step=step,
    )


def draw_transitions(key: Key[Array, ""], store: Store, num: int) -> Transition:
    """Draw a batch of transitions uniformly."""
    return gather(store, *draw_places(key, store.length, num))


def draw_ahead(key: Key[Array, ""], store: Store, num: int, horizon: int, discount: float) -> Ahead:
    """Draw transitions over `horizon` steps, fewer where the episode ends before."""
    episode, step = draw_places(key, store.length, num)
    start = gather(store, episode, step)
    if horizon == 1:
        weight = jnp.ones((num, 1))
        return Ahead(start, start.next_obs[:, None], step[:, None] + 1, weight)
    steps = jnp.minimum(horizon, store.length[episode] - step)
    age = jnp.arange(horizon)[None]
    row = step[:, None] + 1 + jnp.minimum(age, steps[:, None] - 1)
    weight = jnp.where(age < steps[:, None], discount ** age.astype(jnp.float32), 0.0)
    last = step + steps
    start = start._replace(
        next_obs=store.obs[episode, last],
        discount=store.discount[episode, last - 1] * discount ** (steps - 1).astype(jnp.float32),
    )
    return Ahead(start, store.obs[episode[:, None], row], row, weight)


def draw_states(key: Key[Array, ""], store: Store, num: int) -> Array:
    """Draw states reached by an action (never a reset state), uniformly: [num, obs]."""
    episode, step = draw_places(key, store.length, num)
    return store.obs[episode, step + 1]


def draw_futures(
    key: Key[Array, ""], store: Store, batch: Transition, discount: float
) -> Float[Array, "batch obs"]:
    """Draw a state k steps ahead of each transition's first, k geometric, in the same episode."""
    ahead = jax.random.geometric(key, 1.0 - discount, batch.step.shape)
    room = store.length[batch.episode] - batch.step  # compared before the sum, which could overflow
    return store.obs[batch.episode, batch.step + jnp.minimum(ahead, room)]
