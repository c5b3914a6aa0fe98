"""Can the host feed an accelerator? Time to draw and send a window, against a device's rate.

    host    = seconds to draw a window's batches for all seeds and to copy them, per update
    device  = flops of an update of all seeds / (peak of the device x share), an assumption

It matters only for a store that is too large for the device (`data.device_gib`): other data lies on
the device, and the host sends one number per chunk. The copy here is one within this machine's
memory. The wire is counted apart, with an assumed rate. Below 1 the device would wait.
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import jax
from ml_collections import ConfigDict

from zsrl_jax import td3
from zsrl_jax.commands.bench._train_cases import SIZES, SPEC, STEPS, make_noise
from zsrl_jax.devices import peaks, precision
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.errors import DataError, unknown
from zsrl_jax.seeds import seed_keys
from zsrl_jax.settings import fields
from zsrl_jax.training import memory, streaming
from zsrl_jax.training.blueprint import DataShape, programs
from zsrl_jax.training.memory import size_of
from zsrl_jax.types import Store

WIRE = 16e9  # bytes per second from host to device: half of what PCIe 4 x 16 has on paper


def main(argv: Sequence[str] | None = None) -> None:
    """Print one row per stage."""
    parser = argparse.ArgumentParser(prog="experiments.bench feed", description=__doc__)
    parser.add_argument("--encoder", default="fb")
    parser.add_argument("--size", default="paper", help=", ".join(SIZES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=500, help="of the store, 1000 steps each")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(list(argv) if argv is not None else None)
    for name, known, kind in (
        (options.encoder, ENCODERS, "encoder"),
        (options.size, SIZES, "size"),
    ):
        if name not in known:
            raise DataError(unknown(kind, name, known))
    config = fields.get_config("cheetah", options.encoder, "uniform")
    given, config.seeds = SIZES[options.size], options.seeds
    for section in (config.encoder, config.policy):
        section.update({name: value for name, value in given.items() if name in section})
    rows = measure(config, make_noise(options.episodes), options.repeats)
    windows = f"windows of {config.data.feed_updates} updates"
    assumed = f"a wire of {WIRE / 1e9:.0f} GB/s and a share of {peaks.SHARE} are assumed"
    print(f"{options.seeds} seeds, {options.size} sizes, {windows}; {assumed}")
    for row in rows:
        _print(row)


def measure(config: ConfigDict, store: Store, repeats: int) -> list[dict[str, Any]]:
    """Time the host's part of each stage, and set the device's beside it."""
    store = jax.device_put(store, streaming.host())
    flops = _flops(config, DataShape(store.obs.shape[0], STEPS, SPEC))
    encoder = ENCODERS[config.encoder.name].make(config.encoder, SPEC)
    draw = td3.make_draw(config.policy)
    draws = {"encoder": encoder.sample,
             "policy": lambda key, store: draw(td3.sample_keys(key)[1], store)}  # fmt: skip
    rows = []
    for stage, function in draws.items():
        num = config.data.feed_updates
        hosted = streaming.Hosted(store, function, streaming.take_drawn, num)
        keys = jax.device_put(seed_keys(0, config.seeds), streaming.host())
        sent = size_of(streaming.ship(hosted, keys, 0, num))  # and compiled
        times = []
        for i in range(repeats):
            begin = time.perf_counter()
            jax.block_until_ready(streaming.ship(hosted, keys, (i + 1) * num, num))
            times.append(time.perf_counter() - begin)
        rows.append(
            {
                "stage": stage,
                "host": min(times) / num,
                "bytes": sent / num,
                "gflop": flops[stage] / 1e9,
                "device": _seconds(flops[stage]),
            }
        )
    return rows


def _seconds(flops: float) -> dict[str, float]:
    """Return the assumed seconds of an update by device and precision."""
    return {
        f"{name} {kind}": 3600 * peaks.hours(flops, name, kind)
        for name in ("A100", "H100")
        for kind in ("float32", "tf32")
    }


def _flops(config: ConfigDict, shape: DataShape) -> dict[str, float]:
    """Return the flops of one update of all seeds, by stage; a loop's body counts once."""
    found = {}
    with precision.traced_for("gpu"):
        for program in programs(config, shape):
            if program.repeats:
                found[program.name] = memory.count_flops(program)
    return found


def _print(row: dict[str, Any]) -> None:
    wire = row["bytes"] / WIRE
    host = f"host {1e3 * row['host']:.2f} ms per update"
    sent = f"{row['bytes'] / 1e6:.2f} MB: {1e3 * wire:.2f} ms on the wire"
    print(f"{row['stage']:<8} {host}, {sent}; {row['gflop']:.0f} GFLOP")
    for name, seconds in row["device"].items():
        ratio = seconds / max(row["host"], wire)
        word = "the host keeps up" if ratio >= 1 else "the device waits"
        print(f"         {name:<14}{1e3 * seconds:>8.2f} ms: {ratio:.2f} x, {word}")
