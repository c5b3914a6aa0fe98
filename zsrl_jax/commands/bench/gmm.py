"""Seconds for one EM iteration with N = 10,000 points and K = 20 components in float32.

    limit = 4 N K d^2 / (flops per second of a large matrix product);  share = limit / seconds

All run in turn in one process, after a warm-up, from the same responsibilities; the median counts.
An iteration is an M step and an E step: for scikit-learn its own `_m_step` and `_e_step`, for gmmx
its `m_step` and `e_step` in one jitted call. A share above 1 is possible: pairs that cannot matter,
and half of a triangular or symmetric product, are not computed. How many pairs matter depends on
the data, so `--data` has three kinds: `clusters` (in many dimensions nearly every point belongs to
one component), `overlap` (one Gaussian cloud: every component matters to every point, the worst
case), or an .npz file of vectors, with all of its d columns. Held out: log-likelihood per point on
new data of the same distribution, after the timed iterations (low rank: after ten).

`--optima` compares instead what whole fits end in, and their time: see `_gmm_optima`.
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

from zsrl_jax.commands.bench import _gmm_optima
from zsrl_jax.commands.bench._gmm_runs import RANK, K, gmmx_run, our_run, sklearn_run
from zsrl_jax.errors import DataError

N, HELD_OUT = 10_000, 2_000
WANTED = {50: 4.0, 200: 4.0, 1000: 1.3}
WANTED_LOW_RANK = 15.0


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table; save it and its figure if asked."""
    parser = argparse.ArgumentParser(prog="experiments.bench gmm", description=__doc__)
    parser.add_argument("--data", nargs="+", default=["clusters"], help="clusters, overlap, FILE")
    parser.add_argument("--dims", type=int, nargs="+", help="default: 50 200 1000; optima: 50 200")
    parser.add_argument("--seconds", type=float, default=6.0, help="time for each library and d")
    parser.add_argument("--gmmx_max_dim", type=int, default=50, help="it holds N K d^2 floats")
    parser.add_argument("--json", type=Path, help="save the rows here")
    parser.add_argument("--figure", type=Path, help="draw seconds against d here")
    _gmm_optima.add_flags(parser)
    options = parser.parse_args(list(argv) if argv is not None else None)
    if options.optima:
        save(
            _gmm_optima.compare_optima(options.dims or [*_gmm_optima.DIMS], options.seeds), options
        )
        return
    speed = matrix_speed()
    print(f"matrix product: {speed / 1e9:.0f} Gflop/s; N = {N}, K = {K}, float32")
    print(
        f"{'':32}{'s/iter':>9}{'times':>8}{'wanted':>8}{'share':>8}{'held out':>12}  all runs, ms"
    )
    rows: list[dict[str, Any]] = []
    for data in options.data:
        for dim in (options.dims or WANTED) if data in MAKE else [None]:
            rows += compare(data, dim, speed, options)
    save(rows, options)
    if options.figure:
        draw([row for row in rows if row["data"] == options.data[0]], options.figure)


def save(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Write the rows to a file, if asked."""
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def compare(
    data: str, dim: int | None, speed: float, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Time every library on some data and print one row for each."""
    x, test, start = read(data) if dim is None else split(*MAKE[data](dim))
    dim = x.shape[1]
    runs = {"scikit-learn full": sklearn_run(x, test, start)}
    if dim <= options.gmmx_max_dim:
        runs["gmmx full"] = gmmx_run(x, test, start)
    runs["zsrl_jax full"] = our_run(x, test, start, "full")
    runs["zsrl_jax low_rank"] = our_run(x, test, start, "low_rank")
    times = alternate({name: step for name, (step, _) in runs.items()}, options.seconds)
    median = {name: statistics.median(taken) for name, taken in times.items()}
    rows = []
    for name, (_, held_out) in runs.items():
        wanted = {"zsrl_jax full": WANTED.get(dim)}.get(name)
        wanted = WANTED_LOW_RANK if name == "zsrl_jax low_rank" and dim == 1000 else wanted
        row = {
            "data": Path(data).name,
            "dim": dim,
            "name": name,
            "seconds": median[name],
            "ratio": median["scikit-learn full"] / median[name],
            "share": 4 * N * K * dim**2 / speed / median[name],
            "held_out": held_out(),
            "runs": times[name],
        }
        rows.append(row)
        show(row, wanted)
    return rows


def show(row: dict[str, Any], wanted: float | None) -> None:
    """Print a row."""
    shown = f"{row['share']:.2f}" if row["name"].endswith("full") else ""
    each = " ".join(f"{1e3 * taken:.0f}" for taken in row["runs"])
    print(
        f"{row['data'][:8]:9}{row['dim']:<5}{row['name']:<18}{row['seconds']:>9.4f}"
        f"{row['ratio']:>8.1f}{wanted or '':>8}{shown:>8}{row['held_out']:>12.1f}  {each}",
        flush=True,
    )


def make_clusters(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw clusters with a decaying spectrum, their centres close together; return the labels."""
    source = np.random.default_rng(dim)
    label = source.integers(K, size=N + HELD_OUT)
    center = source.normal(size=(K, dim))
    loadings = source.normal(size=(K, dim, RANK)) * (2.0 / np.arange(1, RANK + 1))
    noise = source.normal(size=(N + HELD_OUT, dim))
    x = center[label] + 0.5 * noise
    for component in range(K):
        mine = label == component
        x[mine] += source.normal(size=(mine.sum(), RANK)) @ loadings[component].T
    return x, label


def make_overlap(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw one Gaussian cloud and labels that mean nothing."""
    source = np.random.default_rng(dim)
    x = source.normal(size=(N + HELD_OUT, dim))
    return x, source.integers(K, size=len(x))


MAKE = {"clusters": make_clusters, "overlap": make_overlap}


def read(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read vectors, and start from the nearest of K of them."""
    if not Path(path).is_file():
        raise DataError(f"--data={path}: expected {', '.join(MAKE)} or an .npz file of vectors")
    with np.load(path) as file:
        x = file[file.files[0]].astype(np.float32)
    if x.ndim != 2 or len(x) < N:
        raise DataError(f"{path}: expected at least {N} vectors, found shape {list(x.shape)}")
    center = x[np.random.default_rng(0).choice(N, K, replace=False)]
    nearest = np.argmin(np.sum(center**2, axis=1)[None] - 2 * x[:N] @ center.T, axis=1)
    return x[:N], x[N:] if len(x) > N else x[:N], np.eye(K, dtype=np.float32)[nearest]


def split(x: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points, new points and a start in which a fifth of the labels are moved."""
    source = np.random.default_rng(0)
    moved = np.where(source.random(N) < 0.2, source.integers(K, size=N), label[:N])
    return x[:N].astype(np.float32), x[N:].astype(np.float32), np.eye(K, dtype=np.float32)[moved]


def alternate(steps: dict[str, Callable[[], Any]], seconds: float) -> dict[str, list[float]]:
    """Return the times of each step; they run in turn until each has had its seconds."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
        step()  # the start is not typical: a fifth of its labels are wrong
    while any(len(taken) < 3 and sum(taken) < seconds for taken in times.values()) or any(
        sum(taken) < seconds / 4 and len(taken) < 20 for taken in times.values()
    ):
        for name, step in steps.items():
            if sum(times[name]) < seconds:
                begin = time.perf_counter()
                step()
                times[name].append(time.perf_counter() - begin)
    return times


def matrix_speed() -> float:
    """Measure the floating-point operations per second of a large matrix product."""
    size = 2048
    square = jnp.ones((size, size))
    product = jax.jit(jnp.matmul)
    step = {"product": lambda: product(square, square).block_until_ready()}
    return 2 * size**3 / statistics.median(alternate(step, 2.0)["product"])


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
    axes.set_ylabel("seconds per iteration")
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight")
