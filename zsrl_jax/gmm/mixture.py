"""A mixture of Gaussians as a pytree of arrays.

    p(x) = sum_k w_k N(x | mu_k, Sigma_k)

It can be vmapped over, passed to jit and kept in a checkpoint.

scikit-learn's parameters of the same mixture, as plain arrays:

    precisions_cholesky_ = L^-T  with  covariances_ = L L^T        (full, tied; else 1 / deviation)

scikit-learn itself is not needed: `from_sklearn(vars(model))` reads a fitted model, and
`vars(model).update(to_sklearn(mixture))` fills one.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from zsrl_jax.errors import DataError, unknown
from zsrl_jax.gmm.covariances import Diag, Full, Spherical, Tied
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
        found: Array = log_prob(self, points)
        return found.reshape(x.shape[:-1])

    def joint(self) -> Scorer:
        """Return the function that gives log w_k + log N(x | mu_k, Sigma_k)."""
        score = self.covariance.scorer(self.means)
        return lambda x: self.log_weights[:, None] + score(x)

    def sample(self, key: Key[Array, ""], n: int) -> Float[Array, "{n} d"]:
        """Draw points."""
        drawn: Array = sample(self, key, n)
        return drawn

    def num_parameters(self) -> Int[Array, ""]:
        """Count free parameters, of components with any weight."""
        dim = self.means.shape[-1]
        each, shared = self.covariance.parameter_count(dim)
        return jnp.asarray(jnp.sum(self.log_weights > -jnp.inf) * (each + dim + 1) - 1 + shared)

    def score(
        self, x: Float[Array, "n d"], weights: Float[Array, " n"] | None = None
    ) -> Float[Array, ""]:
        """Compute the mean log-likelihood of points, such as held-out ones."""
        ones = jnp.ones(x.shape[0], self.means.dtype)
        return mean(self.log_prob(x), ones if weights is None else weights)

    def bic(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """Compute Schwarz's criterion on the data of the fit: lower is better."""
        total = x.shape[0]
        return self.num_parameters() * math.log(total) - 2.0 * total * self.score(x)

    def aic(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """Compute Akaike's criterion on the data of the fit: lower is better."""
        return 2.0 * self.num_parameters() - 2.0 * x.shape[0] * self.score(x)

    def distribution(self) -> Any:
        """Return the mixture as a distrax distribution."""
        import distrax  # here: its import takes seconds, and only this needs it

        dim = self.means.shape[-1]
        factor = jnp.broadcast_to(self.covariance.cholesky_factors(dim), (*self.means.shape, dim))
        return distrax.MixtureSameFamily(
            distrax.Categorical(logits=self.log_weights),
            distrax.MultivariateNormalTri(self.means, factor),
        )


@jax.jit
def log_prob(mixture: Mixture, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """Compute the log density of points, in chunks."""
    # Relative to the means, so that x - mu keeps its digits when the data lie far from the origin.
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
    draw: Array = mixture.covariance.draw(key_draw, component, mixture.means.shape[-1])
    return mixture.means[component] + draw


NAMES = {Full: "full", Tied: "tied", Diag: "diag", Spherical: "spherical"}
KEYS = ("weights_", "means_", "covariances_", "covariance_type")


def to_sklearn(mixture: Mixture) -> dict[str, Any]:
    """Return scikit-learn's parameters in float64; low rank becomes full."""
    kind = NAMES.get(type(mixture.covariance), "full")
    if kind in ("full", "tied"):
        dim = mixture.means.shape[-1]
        factor = np.asarray(mixture.covariance.cholesky_factors(dim), np.float64)
        covariances = factor @ factor.transpose(0, 2, 1)
        cholesky = np.linalg.inv(factor).transpose(0, 2, 1)
        precisions = cholesky @ cholesky.transpose(0, 2, 1)
        arrays = [covariances, precisions, cholesky]
        covariances, precisions, cholesky = (a[0] if kind == "tied" else a for a in arrays)
    else:
        deviation = np.asarray(mixture.covariance.deviation, np.float64)
        covariances, precisions, cholesky = deviation**2, deviation**-2, 1 / deviation
    weights = np.asarray(mixture.weights, np.float64)
    return {
        "covariance_type": kind,
        "n_components": len(weights),
        "weights_": weights / weights.sum(),
        "means_": np.asarray(mixture.means, np.float64),
        "covariances_": covariances,
        "precisions_": precisions,
        "precisions_cholesky_": cholesky,
    }


def from_sklearn(parameters: Mapping[str, Any]) -> Mixture:
    """Return the mixture that has these scikit-learn parameters."""
    missing = [key for key in KEYS if key not in parameters]
    if missing:
        raise DataError(
            f"gmm.from_sklearn: {', '.join(missing)} not found; give vars() of a fitted model or "
            f"a dict with {', '.join(KEYS)}"
        )
    weights, means, covariances = (np.asarray(parameters[key], np.float64) for key in KEYS[:3])
    kinds = {name: kind for kind, name in NAMES.items()}
    name = parameters["covariance_type"]
    if name not in kinds:
        raise DataError(unknown("covariance type", name, kinds))
    root = np.linalg.cholesky if name in ("full", "tied") else np.sqrt
    shape = jnp.asarray(root(covariances), jnp.result_type(float))
    with np.errstate(divide="ignore"):
        log_weights = jnp.asarray(np.log(weights), shape.dtype)
    return Mixture(log_weights, jnp.asarray(means, shape.dtype), kinds[name](shape))
