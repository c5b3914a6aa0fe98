"""To and from the parameters of scikit-learn's GaussianMixture, as plain arrays.

    precisions_cholesky_ = L^-T  with  covariances_ = L L^T        (full, tied; else 1 / deviation)

scikit-learn itself is not needed: `from_sklearn(vars(model))` reads a fitted model, and
`vars(model).update(to_sklearn(mixture))` fills one.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from zsrl_jax.errors import DataError, unknown
from zsrl_jax.gmm.diag import Diag, Spherical
from zsrl_jax.gmm.full import Full
from zsrl_jax.gmm.mixture import Mixture
from zsrl_jax.gmm.tied import Tied

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
