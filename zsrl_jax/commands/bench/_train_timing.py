"""Time programs in turn in one process, and make a row of bench `train` of the times."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from zsrl_jax.commands.bench._train_cases import Case
from zsrl_jax.errors import DataError

PART = 0.4  # seconds that one call of a program should take


def best(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the best time of each program in seconds; they run in turn, after a first call."""
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    return {name: min(taken) for name, taken in times.items()}


def matrix_product(size: int) -> tuple[Callable[[], Any], float]:
    """Return a large square product in float32, and its flops."""
    square = jnp.ones((size, size)) / size
    product = jax.jit(lambda x: jnp.matmul(x, x, precision="highest"))  # as in updates
    return lambda: product(square).block_until_ready(), 2.0 * size**3


def measure(case: Case, seeds: list[int], repeats: int, with_torch: bool, size: int) -> dict:
    """Time one learner: numbers of seeds, a constant batch, the matrix product and PyTorch."""
    compiled = case.compiled()
    flops, memory = compiled.cost_analysis()["flops"], compiled.memory_analysis()
    product, product_flops = matrix_product(size)
    speed = product_flops / best({"product": product}, 3)["product"]
    length = min(max(round(PART * speed / flops), 1), 100)
    runs: dict[str, Callable[[], Any]] = {"product": product, "constant": case.constant(length)}
    runs |= {f"seeds {num}": case.program(num, length) for num in seeds}
    if with_torch:
        runs["torch"] = _repeated(case.in_torch(), length)
    seconds = best(runs, repeats)
    one = seconds["seeds 1"] / length
    row = {
        "name": case.name,
        "size": case.size,
        "updates_per_second": 1 / one,
        "seeds": {str(n): n * length / seconds[f"seeds {n}"] for n in seeds},
        "gflop": flops / 1e9,
        "matrix_gflop_per_second": product_flops / seconds["product"] / 1e9,
        "share": flops / one / (product_flops / seconds["product"]),
        "pipeline": seconds["seeds 1"] / seconds["constant"] - 1,
        "peak_mib": _peak(memory) / 2**20,
        "load": os.getloadavg()[0],
    }
    many = max(seeds)
    row["many_to_one"] = row["seeds"][str(many)] / row["updates_per_second"]
    if with_torch:
        row["torch_ratio"] = seconds["torch"] / seconds["seeds 1"]
    return row


def _repeated(update: Callable[[], None], length: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(length):
            update()

    return run


def _peak(memory: Any) -> float:
    """Return the peak memory of one update: arguments, results and temporaries."""
    own = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return own - memory.alias_size_in_bytes


def starts(name: str, size: str) -> dict[str, float]:
    """Return the seconds of a first and of a second start, each in a new process.

    `_start` counts from the built learner to its first update. `_wall` counts the whole process:
    it includes Python, imports and the data, which take equally long both times.
    """
    words = [sys.executable, "-m", "zsrl_jax.commands.bench._train_start", name, size]
    with tempfile.TemporaryDirectory() as folder:
        place = {**os.environ, "XDG_CACHE_HOME": folder}  # where `compile_cache` keeps programs
        place.pop("JAX_COMPILATION_CACHE_DIR", None)
        found = {}
        for which in ("first", "second"):
            begin = time.perf_counter()
            done = subprocess.run(words, env=place, capture_output=True, text=True)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no error message"])[-1]
                raise DataError(f"a start of {name} at {size} sizes failed: {last}")
            found[f"{which}_wall"] = time.perf_counter() - begin
            found[f"{which}_start"] = float(done.stdout)
    return found
