"""How long cells take, roughly: updates over the measured updates per second of two cores.

Laptop scale: with a cell on each core, as studies run there (docs/experiments.md). Paper scale: one
seed at a time (docs/performance.md); an accelerator is much faster. A finished cell tells its own
time, which is that of one core where each core had a cell.
"""

from zsrl_jax.commands.paper.cells import Cell, Place
from zsrl_jax.commands.paper.progress import STAGE, cost
from zsrl_jax.commands.report.load import read_results

RATES: dict[str, dict[str, float]] = {
    "laptop": {
        "aenc": 800, "trans": 680, "lra_p": 850, "lra_sr": 500, "byol": 630, "byol_gamma": 310,
        "fb": 230, "policy": 1290,
    },
    "paper": {
        "aenc": 89, "trans": 87, "lra_p": 85, "lra_sr": 54, "byol": 76, "byol_gamma": 37,
        "fb": 2.7, "policy": 1.4,
    },
}  # fmt: skip
SMOKE, MEASURE = 30.0, 60.0  # seconds of a cell of smoke scale, and of a measurement


def updates_of(cell: Cell, place: Place, stage: str) -> int:
    """Return a cell's updates of a stage, over its seeds; a measurement has none."""
    return cost(cell, place) if STAGE.get(cell.kind) == stage else 0


def seconds_of(cell: Cell, place: Place) -> tuple[float, bool]:
    """Return a cell's share of the time of two cores, or its own time if it was measured."""
    results = read_results(cell.folder(place)) if cell.is_done(place) else None
    if results and "total" in results.get("seconds", {}):
        return float(results["seconds"]["total"]), True
    stage = STAGE.get(cell.kind)
    if stage is None or place.scale not in RATES:
        return (MEASURE if stage is None else SMOKE), False
    rates = RATES[place.scale]
    rate = rates["policy"] if stage == "policy" else rates.get(cell.encoder, rates["fb"])
    return cost(cell, place) / rate, False


def as_time(seconds: float) -> str:
    """Return a time in the unit that fits it."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.0f} s"
