"""Ten minutes on a GPU or TPU: numbers, speed, memory, a kill. Prints a block for an issue.

    numbers   gradients of one update of every learner, on the device and on the host's processor
    speed     updates per second at paper sizes, against the estimate of docs/performance.md
    memory    the device's own peak against the compiler's figure
    kill      a run that is killed and started again ends as a straight one

`make check-accelerator` runs it. The exit code is 2 if something is wrong.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from zsrl_jax.commands.bench import _accelerator_kill as kill
from zsrl_jax.commands.bench._train_cases import NAMES, SPEC, STEPS, build
from zsrl_jax.devices import compile_cache, peaks, precision
from zsrl_jax.errors import DataError, unknown
from zsrl_jax.seeds import over_seeds
from zsrl_jax.settings import fields
from zsrl_jax.training import memory, streaming
from zsrl_jax.training.blueprint import DataShape, programs
from zsrl_jax.training.loop import make_loop
from zsrl_jax.training.memory import GB

APART = {"float32": 1e-4, "tf32": 1e-2, "bfloat16": 2e-2}  # of gradients; docs/devices.md
SEEDS = 5
ROWS = 5_000_000  # of data at paper scale


def main(argv: Sequence[str] | None = None) -> None:
    """Run all checks and print the block; raise if one failed."""
    parser = argparse.ArgumentParser(prog="experiments.bench accelerator", description=__doc__)
    parser.add_argument("--here", action="store_true", help="also without an accelerator")
    parser.add_argument("--size", default="paper", help="of what is timed: paper, laptop, tiny")
    parser.add_argument("--rows", type=int, default=ROWS, help="of data that updates read")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each timing")
    parser.add_argument("--only", default=",".join(NAMES), help="learners, such as fb,policy")
    options = parser.parse_args(list(argv) if argv is not None else None)
    if kill.backend() == "cpu" and not options.here:
        raise DataError(
            "JAX sees no accelerator: pip install '.[cuda]' or '.[tpu]' on a machine that has one "
            "(--here runs the checks on the CPU)"
        )
    compile_cache.keep()
    names, wrong = options.only.split(","), []
    if odd := [name for name in names if name not in NAMES]:
        raise DataError(unknown("learner", odd[0], NAMES))
    with tempfile.TemporaryDirectory() as folder:  # first: see _accelerator_kill
        apart = kill.killed_and_resumed(Path(folder))
    lines = [_head(), f"kill: after a resume parameters differ by {apart:g}"]
    wrong += [] if apart == 0 else ["kill"]
    for name in names:
        line, good = _numbers(name)
        lines.append(line)
        wrong += [] if good else [f"numbers of {name}"]
    for name in [name for name in ("fb", "policy") if name in names]:
        for products in precision.NAMES:
            lines.append(_speed(name, options.size, options.rows, products, options.seconds))
    if options.size == "paper":
        lines.append(_memory(options.rows))
    lines.append(f"wrong: {', '.join(wrong)}" if wrong else "nothing is wrong")
    print("\n".join(["```", *lines, "```"]))
    if wrong:
        raise DataError(f"{', '.join(wrong)}: please open an issue with the block above")


def _head() -> str:
    import zsrl_jax

    device = jax.devices()[0]
    return (
        f"zsrl_jax {zsrl_jax.__version__}, jax {jax.__version__}: {jax.device_count()} x "
        f"{device.device_kind} ({device.platform})"
    )


def gradients(name: str, device: jax.Device, products: str) -> np.ndarray:
    """Return Adam's moments after one update of two seeds on a device, in one row."""
    with jax.default_device(device), precision.traced_for(device.platform):
        case = build(name, "tiny", rows=2000)
        state, keys, data = case.seeds(2)
        loop = make_loop(case.learner.sample, case.learner.update, 1)
        run = over_seeds(loop, (0, 0, case.axes, None), products=products)
        found = run(state, keys, data, jnp.asarray(0))[0].opt_state
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found)])


def _numbers(name: str) -> tuple[str, bool]:
    """Compare gradients of the device with float32's of the host's processor."""
    exact = gradients(name, streaming.host(), precision.EXACT)
    found = {}
    for products in precision.NAMES:
        here = gradients(name, jax.local_devices()[0], products)
        found[products] = float(np.linalg.norm(here - exact) / np.linalg.norm(exact))
    good = all(value <= APART[products] for products, value in found.items())
    parts = ", ".join(f"{products} {value:.1e}" for products, value in found.items())
    return f"numbers: {name}: gradients differ from the host's by {parts}", good


def _speed(name: str, size: str, rows: int, products: str, seconds: float) -> str:
    """Time updates of all seeds; set them against the maker's peak and the estimate."""
    case = build(name, size, rows)
    flops = case.compiled().cost_analysis()["flops"] * SEEDS
    rate = _rate(case.program(SEEDS, 20, products), 20, seconds)
    told = f"speed: {name}, {size}, {products}: {SEEDS * rate:.1f} updates/s of {SEEDS} seeds"
    peak = peaks.peak_of(jax.devices()[0].device_kind)
    if peak is None:
        return f"{told}, {flops * rate / 1e12:.2f} TFLOP/s (peak of this device is not known here)"
    share = flops * rate / (getattr(peak, products) * 1e12)
    return f"{told}, {share:.0%} of the maker's peak (estimated {peaks.SHARE:.0%})"


def _rate(advance: Callable[[], Any], length: int, seconds: float) -> float:
    """Return updates per second, after a first call that compiles."""
    advance()
    begin, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begin < seconds:
        advance()
        calls += 1
    return calls * length / (time.perf_counter() - begin)


def _memory(rows: int) -> str:
    """Set the device's own peak of memory beside the compiler's figure for the policy."""
    config = fields.get_config("cheetah", "fb", "uniform")
    shape = DataShape(max(rows // STEPS, 1), STEPS, SPEC)
    (policy,) = (program for program in programs(config, shape) if program.name == "policy")
    table = f"the compiler says {memory.by_compiler(policy).total / GB:.2f} GB for the policy"
    facts = jax.local_devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" not in facts:
        return f"memory: {table}; the device does not tell what it uses"
    peak, limit = facts["peak_bytes_in_use"] / GB, facts.get("bytes_limit", 0) / GB
    return f"memory: {table}; the device used {peak:.2f} of {limit:.2f} GB at most"
