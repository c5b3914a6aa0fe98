"""How a fit went: the log-likelihood by iteration, and what had to be done on the way."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Trace:
    """The mean log-likelihood of a point after 0 (the start), 1, 2, ... iterations, as an array.

    Entries after the last iteration repeat its value, so `trace[-1]` is that of the returned
    mixture. Where rounding lets an iteration lose, as it can when a covariance is singular but for
    the floor, the best mixture so far and its value are kept; `falls` counts such iterations and
    `lost` is the most that one of them lost.
    """

    log_likelihood: Float[Array, "*s i"]
    iterations: Int[Array, "*s"]
    converged: Bool[Array, "*s"]
    jitters: Int[Array, "*s"]
    reseeds: Int[Array, "*s"]
    falls: Int[Array, "*s"]
    lost: Float[Array, "*s"]
    dropped: Int[Array, "*s"]

    def replace(self, **changes: Any) -> "Trace":
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        """Give the log-likelihoods to numpy."""
        return np.asarray(self.log_likelihood, dtype)

    def __jax_array__(self) -> Array:
        """Give the log-likelihoods to JAX."""
        return self.log_likelihood

    def __getitem__(self, index: Any) -> Array:
        """Return the log-likelihood at an iteration, or at several."""
        return self.log_likelihood[index]

    def __len__(self) -> int:
        """Count the entries: one more than the iterations allowed."""
        return self.log_likelihood.shape[-1]
