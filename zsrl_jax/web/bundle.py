"""Arrays as one block of bytes with a table of contents, each in the smallest exact type."""

from collections.abc import Mapping
from typing import Any

import numpy as np

TYPES = (np.float16, np.float32, np.float64)


def pack(arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], bytes]:
    """Return the table {name: [type, shape, first byte]} and the bytes."""
    table, blocks, at = {}, [], 0
    for name, array in arrays.items():
        small = smallest(np.asarray(array))
        table[name] = [small.dtype.name, list(small.shape), at]
        block = small.tobytes()
        block += bytes(-len(block) % 8)  # every array starts where a float64 may
        blocks.append(block)
        at += len(block)
    return table, b"".join(blocks)


def smallest(array: np.ndarray) -> np.ndarray:
    """Return numbers in the smallest type that holds each of them exactly."""
    with np.errstate(over="ignore"):
        for kind in TYPES:
            small = np.ascontiguousarray(array, kind)
            if np.array_equal(small.astype(np.float64), array.astype(np.float64), equal_nan=True):
                return small
    raise AssertionError("float64 holds every number of an agent")
