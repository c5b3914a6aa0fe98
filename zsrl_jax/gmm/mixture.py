"""A mixture of Gaussians as a pytree of arrays.

    p(x) = sum_k w_k N(x | mu_k, Sigma_k)

It can be vmapped over, passed to jit and kept in a checkpoint.
"""

import math
from typing import Any, NamedTuple

import distrax
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.gmm.moments import Scorer, chunk_size, map_rows, mean


class Mixture(NamedTuple):
    """Log weights, means and covariances (`Full`, `Diag`, `Spherical`, `Tied` or `LowRank`)."""

    log_weights: Float[Array, "*s k"]
    means: Float[Array, "*s k d"]
    covariance: Any

    @property
    def weights(self) -> Float[Array, "*s k"]:
        """Return the probability of each component."""
        return jnp.exp(self.log_weights)

    def covariances(self) -> Float[Array, "k d d"]:
        """Return the covariance matrices."""
        dim = self.means.shape[-1]
        factor = self.covariance.cholesky_factors(dim)
        dense = jnp.matmul(factor, factor.transpose(0, 2, 1), precision=lax.Precision.HIGHEST)
        return jnp.broadcast_to(dense, (*self.means.shape, dim))

    def log_prob(self, x: Float[Array, "*n d"]) -> Float[Array, "*n"]:
        """Compute the log density of points."""
        points = jnp.asarray(x, self.means.dtype).reshape(-1, self.means.shape[-1])
        return log_prob(self, points).reshape(x.shape[:-1])

    def joint(self) -> Scorer:
        """Return the function that gives log w_k + log N(x | mu_k, Sigma_k)."""
        score = self.covariance.scorer(self.means)
        return lambda x: self.log_weights[:, None] + score(x)

    def sample(self, key: Key[Array, ""], n: int) -> Float[Array, "{n} d"]:
        """Draw points."""
        return sample(self, key, n)

    def num_parameters(self) -> Int[Array, ""]:
        """Count free parameters, of components with any weight."""
        dim = self.means.shape[-1]
        each, shared = self.covariance.parameter_count(dim)
        return jnp.sum(self.log_weights > -jnp.inf) * (each + dim + 1) - 1 + shared

    def score(
        self, x: Float[Array, "n d"], weights: Float[Array, " n"] | None = None
    ) -> Float[Array, ""]:
        """Compute the mean log-likelihood of points, say held-out ones."""
        ones = jnp.ones(x.shape[0], self.means.dtype)
        return mean(self.log_prob(x), ones if weights is None else weights)

    def bic(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """Compute Schwarz's criterion on the data of the fit: lower is better."""
        total = x.shape[0]
        return self.num_parameters() * math.log(total) - 2.0 * total * self.score(x)

    def aic(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """Compute Akaike's criterion on the data of the fit: lower is better."""
        return 2.0 * self.num_parameters() - 2.0 * x.shape[0] * self.score(x)

    def distribution(self) -> distrax.Distribution:
        """Return the mixture as a distrax distribution."""
        dim = self.means.shape[-1]
        factor = jnp.broadcast_to(self.covariance.cholesky_factors(dim), (*self.means.shape, dim))
        return distrax.MixtureSameFamily(
            distrax.Categorical(logits=self.log_weights),
            distrax.MultivariateNormalTri(self.means, factor),
        )


@jax.jit
def log_prob(mixture: Mixture, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """Compute the log density of points, in chunks."""
    # Near the means, not near the origin: x - mu keeps its digits when the data lie far out.
    center = jnp.mean(mixture.means, axis=0)
    joint = mixture._replace(means=mixture.means - center[None]).joint()

    def rows_log_prob(rows: Float[Array, "m d"]) -> Float[Array, " m"]:
        return jax.nn.logsumexp(joint(rows - center[None]), axis=0)

    return map_rows(rows_log_prob, x, chunk_size(x.shape[1]))


@jax.jit(static_argnames="n")
def sample(mixture: Mixture, key: Key[Array, ""], n: int) -> Float[Array, "n d"]:
    """Draw points: first their components, then noise of those shapes."""
    key_component, key_draw = jax.random.split(key)
    component = jax.random.categorical(key_component, mixture.log_weights, shape=(n,))
    draw = mixture.covariance.draw(key_draw, component, mixture.means.shape[-1])
    return mixture.means[component] + draw
