"""Seconds for one EM iteration with N = 10,000 points and K = 20 components in float32.

    limit = 4 N K d^2 / (flops a second of a large matrix product here);  share = limit / seconds

All run in one process, in turn, after a warm-up, from the same responsibilities; the median counts.
An iteration is an M step and an E step: for scikit-learn its own `_m_step` and `_e_step`, for gmmx
its `m_step` and `e_step` in one jitted call. A share above 1 is possible: half of a triangular or
symmetric product need not be computed. Held out: log-likelihood a point on new data of the same
law, after the iterations that were timed (low rank: after ten).
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from zsrl_jax.gmm import em, fit
from zsrl_jax.gmm.moments import chunk_size
from zsrl_jax.gmm.start import normalize

N, K, HELD_OUT, RANK = 10_000, 20, 2_000, 10
FLOOR = 1e-3  # at d = 1000 a component has fewer points than columns: 1e-6 fails in scikit-learn
WANTED = {50: 4.0, 200: 4.0, 1000: 1.3}
WANTED_LOW_RANK = 15.0


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, and save it and its figure where asked."""
    parser = argparse.ArgumentParser(prog="experiments.bench gmm", description=__doc__)
    parser.add_argument("--dims", type=int, nargs="+", default=list(WANTED))
    parser.add_argument("--seconds", type=float, default=6.0, help="for each library and d")
    parser.add_argument("--gmmx_max_dim", type=int, default=50, help="it holds N K d^2 floats")
    parser.add_argument("--json", type=Path, help="save the rows here")
    parser.add_argument("--figure", type=Path, help="draw seconds against d here")
    options = parser.parse_args(list(argv) if argv is not None else None)
    speed = matrix_speed()
    print(f"matrix product: {speed / 1e9:.0f} Gflop/s; N = {N}, K = {K}, float32")
    print(f"{'':24}{'s/iter':>12}{'times':>8}{'wanted':>8}{'share':>8}{'held out':>12}")
    rows: list[dict[str, Any]] = []
    for dim in options.dims:
        rows += compare(dim, speed, options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    if options.figure:
        draw(rows, options.figure)


def compare(dim: int, speed: float, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time every library at one dimension and print a row for each."""
    x, test, start = make_data(dim)
    runs = {"scikit-learn full": sklearn_run(x, test, start)}
    if dim <= options.gmmx_max_dim:
        runs["gmmx full"] = gmmx_run(x, test, start)
    runs["zsrl_jax full"] = our_run(x, test, start, "full")
    runs["zsrl_jax low_rank"] = our_run(x, test, start, "low_rank")
    times = alternate({name: step for name, (step, _) in runs.items()}, options.seconds)
    rows = []
    for name, (_, held_out) in runs.items():
        wanted = {"zsrl_jax full": WANTED.get(dim)}.get(name)
        wanted = WANTED_LOW_RANK if name == "zsrl_jax low_rank" and dim == 1000 else wanted
        ratio = times["scikit-learn full"] / times[name]
        share = 4 * N * K * dim**2 / speed / times[name]
        score = held_out()
        shown = f"{share:.2f}" if name.endswith("full") else ""
        print(
            f"d = {dim:<5}{name:<18}{times[name]:>9.4f}{ratio:>8.1f}{wanted or '':>8}"
            f"{shown:>8}{score:>12.1f}",
            flush=True,
        )
        rows.append(
            {"dim": dim, "name": name, "seconds": times[name], "ratio": ratio, "share": share}
            | {"held_out": score}
        )
    return rows


def make_data(dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw overlapping clusters with a decaying spectrum; return points, new points and a start."""
    source = np.random.default_rng(dim)
    label = source.integers(K, size=N + HELD_OUT)
    center = source.normal(size=(K, dim))
    loadings = source.normal(size=(K, dim, RANK)) * (2.0 / np.arange(1, RANK + 1))
    noise = source.normal(size=(N + HELD_OUT, dim))
    x = center[label] + 0.5 * noise
    for component in range(K):
        mine = label == component
        x[mine] += source.normal(size=(mine.sum(), RANK)) @ loadings[component].T
    moved = np.where(source.random(N) < 0.2, source.integers(K, size=N), label[:N])
    start = np.eye(K, dtype=np.float32)[moved]
    return x[:N].astype(np.float32), x[N:].astype(np.float32), start


def our_run(x: np.ndarray, test: np.ndarray, start: np.ndarray, covariance: str):
    """Return one iteration of ours, and the held-out log-likelihood."""
    dim = x.shape[1]
    options = em.Options(K, 10, covariance, 1, RANK, 5, chunk_size(dim))
    data, _ = normalize(jnp.asarray(x), jnp.ones(N), options.chunk)
    problem = em.Problem(data, FLOOR / data.scale**2, jnp.ones(K, bool), jnp.zeros(()))

    @jax.jit
    def prepare(problem: em.Problem, start: jax.Array) -> em.State:
        key = jax.random.key(0)
        respond = em.begin(key, problem, (None, start), options)
        return em.initial(key, problem, respond, options)

    step = jax.jit(lambda state, problem: em.iterate(state, problem, options))
    state = [prepare(problem, jnp.asarray(start))]

    def iterate() -> None:
        state[0] = jax.block_until_ready(step(state[0], problem))

    def held_out() -> float:
        if covariance == "low_rank":
            shares = jnp.asarray(start)
            fitted, _ = fit(
                jax.random.key(0),
                data.x,
                K,
                10,
                0.0,
                covariance,
                rank=RANK,
                responsibilities=shares,
            )
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


def alternate(steps: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Return the median time of each step, run in turn until each had its seconds."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    while any(len(taken) < 3 and sum(taken) < seconds for taken in times.values()) or any(
        sum(taken) < seconds / 4 and len(taken) < 20 for taken in times.values()
    ):
        for name, step in steps.items():
            if sum(times[name]) < seconds:
                begin = time.perf_counter()
                step()
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(taken) for name, taken in times.items()}


def matrix_speed() -> float:
    """Measure the floating-point operations a second of a large matrix product."""
    size = 2048
    square = jnp.ones((size, size))
    product = jax.jit(jnp.matmul)
    step = {"product": lambda: product(square, square).block_until_ready()}
    return 2 * size**3 / alternate(step, 2.0)["product"]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw seconds for one iteration against the dimension."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 3.5))
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = [row for row in rows if row["name"] == name]
        axes.loglog([r["dim"] for r in mine], [r["seconds"] for r in mine], "o-", label=name)
    dims = sorted({row["dim"] for row in rows})
    full = {row["dim"]: row for row in rows if row["name"] == "zsrl_jax full"}
    limit = [full[dim]["seconds"] * full[dim]["share"] for dim in dims]
    axes.loglog(dims, limit, "k--", label="4 N K d² at matrix speed")
    axes.set_xlabel("dimension d")
    axes.set_ylabel("seconds an iteration")
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight")
