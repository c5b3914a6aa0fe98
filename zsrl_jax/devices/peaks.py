"""What devices can do by their makers' data sheets: memory, and products per second.

Dense, without sparsity. A TPU multiplies in bfloat16; it makes float32 of six such products, and
what stands for tf32 of three (`precision`). SHARE is a guess, for products of about 2048 x 1024 x
1024: no accelerator was available to measure it.
"""

import re
from typing import NamedTuple

SHARE = 0.4


class Peak(NamedTuple):
    """Gigabytes of memory, and TFLOP/s by precision."""

    memory: tuple[int, ...]
    float32: float
    tf32: float
    bfloat16: float


def _tpu(memory: int, bfloat16: float) -> Peak:
    return Peak((memory,), bfloat16 / 6, bfloat16 / 3, bfloat16)


PEAKS = {
    "A100": Peak((40, 80), 19.5, 156.0, 312.0),
    "H100": Peak((80,), 67.0, 495.0, 989.0),
    "L4": Peak((24,), 30.3, 60.0, 121.0),
    "RTX 3090": Peak((24,), 35.6, 35.6, 71.0),
    "RTX 4090": Peak((24,), 82.6, 82.6, 165.2),
    "TPU v4": _tpu(32, 275.0),
    "TPU v5": _tpu(95, 459.0),  # JAX's name for v5p
    "TPU v5 lite": _tpu(16, 197.0),
    "TPU v6 lite": _tpu(32, 918.0),
}


def peak_of(kind: str) -> Peak | None:
    """Return the peaks of a device by its name, as JAX gives it; None if it is not in the table.

    Whole words count: an L40 is no L4.
    """
    found = [name for name in PEAKS if re.search(rf"\b{name}\b", kind, re.IGNORECASE)]
    return PEAKS[max(found, key=len)] if found else None


def hours(flops: float, name: str, precision: str) -> float:
    """Return the estimated hours of so many flops on a device."""
    return flops / (getattr(PEAKS[name], precision) * 1e12 * SHARE) / 3600
