"""One EM iteration of each library, from the same responsibilities, and its held-out score."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from zsrl_jax.gmm import climbing, em, fit
from zsrl_jax.gmm.moments import chunk_size
from zsrl_jax.gmm.pruning import pays
from zsrl_jax.gmm.start import normalize

K, RANK = 20, 10
FLOOR = 1e-3  # at d = 1000 a component has fewer points than columns: 1e-6 fails in scikit-learn


def our_run(x: np.ndarray, test: np.ndarray, start: np.ndarray, covariance: str):
    """Return one iteration of ours, and the held-out log-likelihood."""
    dim = x.shape[1]
    skip = pays(em.FAMILIES[covariance], dim)
    options = em.Options(K, 10, covariance, 1, RANK, 5, chunk_size(dim), skip)
    data, _ = normalize(jnp.asarray(x), jnp.ones(len(x)), options.chunk)
    problem = em.Problem(data, FLOOR / data.scale**2, jnp.ones(K, bool), jnp.zeros(()))

    @jax.jit
    def prepare(problem: em.Problem, start: jax.Array) -> em.State:
        key = jax.random.key(0)
        respond, _ = climbing.begin(key, problem, (None, start), options)
        return em.initial(key, problem, respond, options)

    step = jax.jit(lambda state, problem: em.iterate(state, problem, options))
    state = [prepare(problem, jnp.asarray(start))]

    def iterate() -> None:
        state[0] = jax.block_until_ready(step(state[0], problem))

    def held_out() -> float:
        if covariance == "low_rank":
            given: dict[str, Any] = {"rank": RANK, "responsibilities": jnp.asarray(start)}
            fitted, _ = fit(jax.random.key(0), data.x, K, 10, 0.0, covariance, **given)
            return float(fitted.score(jnp.asarray(test)))
        local = state[0].best.log_prob((jnp.asarray(test) - data.shift[None]) / data.scale)
        return float(jnp.mean(local) - dim * jnp.log(data.scale))

    return iterate, held_out


def sklearn_run(x: np.ndarray, test: np.ndarray, start: np.ndarray):
    """Return one iteration of scikit-learn, and the held-out log-likelihood."""
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(K, reg_covar=FLOOR)
    model._initialize(x, start)
    log_start = [np.log(start + 1e-30)]

    def iterate() -> None:
        model._m_step(x, log_start[0])
        log_start[0] = model._e_step(x)[1]

    return iterate, lambda: float(model.score(test))


def gmmx_run(x: np.ndarray, test: np.ndarray, start: np.ndarray):
    """Return one iteration of gmmx, and the held-out log-likelihood."""
    from gmmx import EMFitter, GaussianMixtureModelJax

    fitter = EMFitter(reg_covar=FLOOR)
    points, shares = jnp.asarray(x)[:, None, :, None], jnp.asarray(start)[:, :, None, None]
    model = [GaussianMixtureModelJax.from_responsibilities(points, shares, reg_covar=FLOOR)]

    @jax.jit
    def step(points: jax.Array, model: Any) -> Any:
        return fitter.m_step(points, model, fitter.e_step(points, model)[1])

    def iterate() -> None:
        model[0] = jax.block_until_ready(step(jnp.asarray(x), model[0]))

    def held_out() -> float:
        return float(fitter.e_step(jnp.asarray(test), model[0])[0])

    return iterate, held_out
