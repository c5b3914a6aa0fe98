"""The shapes rewards are made of.

    linear(x; lo, m, v)   = 1 if x >= lo else max(0, 1 - (1 - v)(lo - x)/m)
    gaussian(x; lo, m)    = 1 if x >= lo else 0.1^(((lo - x)/m)^2)

Both are dm_control's `rewards.tolerance` with an open upper bound; 0.1 is its default value at
the margin.
"""

import jax
import jax.numpy as jnp


def linear(x: jax.Array, low: float, margin: float, value: float) -> jax.Array:
    """Return 1 above low, falling in a line to `value` at low - margin, never below 0."""
    return jnp.clip(1 - (1 - value) * (low - x) / margin, 0, 1)


def gaussian(x: jax.Array, low: float, margin: float) -> jax.Array:
    """Return 1 above low, falling as a bell to 0.1 at low - margin."""
    return 0.1 ** (jnp.maximum(low - x, 0) / margin) ** 2
