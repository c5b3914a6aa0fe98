"""Gaussian mixtures by maximum likelihood, on the device: `fit`, `Mixture`, `Trace`.

    p(x) = sum_k w_k N(x | mu_k, Sigma_k)

Reading order: moments, full, mixture, start, em, fitting.
"""

from zsrl_jax.gmm.em import Trace
from zsrl_jax.gmm.fitting import fit
from zsrl_jax.gmm.mixture import Mixture

__all__ = ["Mixture", "Trace", "fit"]
