"""Cost of one update against d, the batch size and the number of rows of the data."""

from collections.abc import Sequence
from typing import Any

from zsrl_jax.commands.bench._train_cases import SIZES, build
from zsrl_jax.commands.bench._train_timing import best

AXES: dict[str, list[int]] = {
    "dim": [50, 100, 200, 500, 1000],
    "batch": [256, 512, 1024, 2048, 4096],
    "rows": [100_000, 1_000_000, 10_000_000],
}
TINY: dict[str, list[int]] = {"dim": [4, 8], "batch": [16, 32], "rows": [1000, 2000]}
UPDATES = 5  # in one call


def growth(names: Sequence[str], size: str, repeats: int) -> list[dict[str, Any]]:
    """Time one update of fb and the policy (if asked for) along each axis."""
    found = []
    for axis, values in (TINY if size == "tiny" else AXES).items():
        for name in [name for name in ("fb", "policy") if name in names]:
            for value in values:
                case = build(name, size, **_fields(name, size, axis, value))
                taken = best({"update": case.program(1, UPDATES)}, repeats)["update"] / UPDATES
                row = {"name": name, "axis": axis, "value": value, "seconds": taken}
                found.append(row)
                print(f"growth {name} {axis} {value}: {1e3 * taken:.2f} ms", flush=True)
    return found


def _fields(name: str, size: str, axis: str, value: int) -> dict[str, Any]:
    """Return the fields to change; a policy's batch grows by its transitions per task."""
    if axis == "batch" and name == "policy":
        tasks = SIZES[size].get("num_tasks", 32)
        return {"per_task": value // tasks}
    return {axis: value}
