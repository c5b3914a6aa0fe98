"""Gaussian mixtures by maximum likelihood, on the device.

    p(x) = sum_k w_k N(x | mu_k, Sigma_k)

    mixture, trace = gmm.fit(key, x, num_components=20)
    mixture.sample(key, n), mixture.log_prob(x), mixture.bic(x), mixture.distribution()

Reading order: linalg, moments, the covariance types (covariances, low_rank), mixture, pruning,
start, em, moves, climbing, checks, fitting; projected.
"""

from zsrl_jax.gmm.covariances import Diag, Full, Spherical, Tied
from zsrl_jax.gmm.em import Trace
from zsrl_jax.gmm.fitting import fit
from zsrl_jax.gmm.low_rank import LowRank
from zsrl_jax.gmm.mixture import Mixture, from_sklearn, to_sklearn
from zsrl_jax.gmm.projected import projected_log_prob, projected_score

__all__ = [
    "Diag",
    "Full",
    "LowRank",
    "Mixture",
    "Spherical",
    "Tied",
    "Trace",
    "fit",
    "from_sklearn",
    "projected_log_prob",
    "projected_score",
    "to_sklearn",
]
