"""Ten minutes on a GPU or TPU: numbers, speed, memory, a kill. Prints a block for an issue.

    kill      a run that is killed and started again ends as a straight one
    memory    the device's own peak against the compiler's figure, as the doctor prints it
    numbers   gradients of one update of every learner, on the device and on the host's processor
    speed     updates per second at paper sizes, against the estimate of docs/performance.md
    units     the precisions that the device multiplies in; an older GPU has float32 alone

`make check-accelerator` runs it. The exit code is 2 if something is wrong.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from zsrl_jax.commands.bench import _accelerator_kill as kill
from zsrl_jax.commands.bench import _accelerator_memory as used
from zsrl_jax.commands.bench import _accelerator_units as units
from zsrl_jax.commands.bench._accelerator_memory import SEEDS
from zsrl_jax.commands.bench._train_cases import SIZES, build
from zsrl_jax.devices import compile_cache, peaks, precision
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.errors import DataError, unknown
from zsrl_jax.seeds import over_seeds
from zsrl_jax.training import streaming
from zsrl_jax.training.loop import make_loop

# Of gradients. Rounded by hand on a CPU, five learners of this size differ by at most 8e-4 (tf32)
# and 2.6e-2 (bfloat16, the policy); the others were not measured.
APART = {"float32": 1e-4, "tf32": 1e-2, "bfloat16": 5e-2}
NAMES = [*ENCODERS, "policy"]
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
    backend = kill.backend()
    if backend == "cpu" and not options.here:
        raise DataError(
            "JAX sees no accelerator: pip install '.[cuda]' or '.[tpu]' on a machine that has one "
            "(--here runs the checks on the CPU)"
        )
    compile_cache.keep()
    names = options.only.split(",")
    if options.size not in SIZES:
        raise DataError(unknown("size", options.size, SIZES))
    if odd := [name for name in names if name not in NAMES]:
        raise DataError(unknown("learner", odd[0], NAMES))
    lines: list[str] = []
    wrong: list[str] = []
    for line, fault in _checks(names, options, backend):
        print(line, file=sys.stderr, flush=True)  # as they come; the block is printed at the end
        lines.append(line)
        wrong += [fault] if fault else []
    lines.append(f"wrong: {', '.join(wrong)}" if wrong else "nothing is wrong")
    print("\n".join(["```", *lines, "```"]))
    if wrong:
        raise DataError(f"{', '.join(wrong)}: please open an issue with the block above")


def _checks(
    names: list[str], options: argparse.Namespace, backend: str
) -> Iterator[tuple[str, str]]:
    """Yield the lines of the block, each with what is wrong, or nothing.

    A check that fails is a line too: whoever has a fault has a block to paste.
    """
    killed = _tried("kill", lambda: _kill(backend))  # first: see _accelerator_kill
    yield _head(), ""
    yield killed
    size, rows, seconds = options.size, options.rows, options.seconds
    # before the rest: a peak is never forgotten
    yield _tried("memory", lambda: (used.tell(size, rows), True))
    kinds: list[str] = list(precision.NAMES)

    def look() -> tuple[str, bool]:
        kinds[:], line, good = units.there()
        return line, good

    yield _tried("units", look)
    for name in names:
        yield _tried(f"numbers of {name}", lambda name=name: _numbers(name, kinds))
    for name in [name for name in ("fb", "policy") if name in names]:
        for kind in kinds:
            yield _tried(
                f"speed of {name} in {kind}",
                lambda name=name, kind=kind: (_speed(name, size, rows, kind, seconds), True),
            )


def _tried(what: str, check: Callable[[], tuple[str, bool]]) -> tuple[str, str]:
    """Return a check's line, and its name if it found something wrong or failed itself."""
    try:
        line, good = check()
    except Exception as error:  # whatever a device's compiler or memory may raise
        first = (str(error).splitlines() or [""])[0][:200]
        return f"{what}: failed: {type(error).__name__}: {first}", what
    return line, "" if good else what


def _kill(backend: str) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory() as folder:
        apart = kill.killed_and_resumed(Path(folder), backend=backend)
    return f"kill: after a resume parameters differ by {apart:g}", not apart


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


def _numbers(name: str, kinds: Sequence[str] = precision.NAMES) -> tuple[str, bool]:
    """Compare gradients of the device with float32's of the host's processor."""
    exact = gradients(name, streaming.host(), precision.EXACT)
    found = {}
    for products in kinds:
        here = gradients(name, jax.local_devices()[0], products)
        found[products] = float(np.linalg.norm(here - exact) / np.linalg.norm(exact))
    good = all(value <= APART[products] for products, value in found.items())
    parts = ", ".join(f"{products} {value:.1e}" for products, value in found.items())
    return f"numbers: {name}: gradients differ from the host's by {parts}", good


def _speed(name: str, size: str, rows: int, products: str, seconds: float) -> str:
    """Time updates of all seeds; set them against the maker's peak and the estimate."""
    with jax.default_device(streaming.host()), precision.traced_for("cpu"):
        flops = build(name, size, 2000).compiled().cost_analysis()["flops"] * SEEDS
    case = build(name, size, rows)
    rate = _rate(case.program(SEEDS, 20, products), 20, seconds)
    return f"speed: {name}, {size}, {products}: {against_estimate(flops, rate, products)}"


def against_estimate(flops: float, rate: float, products: str) -> str:
    """Tell the updates per second of all seeds, and the share of peak, beside the estimates."""
    found = f"{SEEDS * rate:.1f} updates/s of {SEEDS} seeds"
    peak = peaks.peak_of(jax.devices()[0].device_kind)
    if peak is None:
        return f"{found}, {flops * rate / 1e12:.2f} TFLOP/s (peak of this device is not known here)"
    most = getattr(peak, products) * 1e12
    expected = SEEDS * peaks.SHARE * most / flops
    return (f"{found} (estimated {expected:.0f}), {flops * rate / most:.0%} of the maker's peak "
            f"(estimated {peaks.SHARE:.0%})")  # fmt: skip


def _rate(advance: Callable[[], Any], length: int, seconds: float) -> float:
    """Return updates per second, after a first call that compiles."""
    advance()
    begin, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begin < seconds:
        advance()
        calls += 1
    return calls * length / (time.perf_counter() - begin)
