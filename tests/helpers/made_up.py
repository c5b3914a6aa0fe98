"""Results that nobody ran, for the report: every cell of studies with scores drawn from a seed."""

import json

import numpy as np

from zsrl_jax.commands.paper.cells import Place, cells_of
from zsrl_jax.commands.paper.plan import write_plan
from zsrl_jax.envs import DOMAINS


def fill(place: Place, *names: str) -> None:
    """Write plans and results of studies."""
    draw = np.random.default_rng(0)
    for name in names:
        cells = cells_of(name, place)
        write_plan(name, cells, place)
        for cell in cells:
            folder = cell.folder(place)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "results.json").write_text(json.dumps(results_of(cell, place, draw)))


def results_of(cell, place: Place, draw: np.random.Generator) -> dict:
    config = json.loads(cell.config(place).to_json_best_effort())
    tasks = list(DOMAINS[cell.domain].tasks)
    seeds = [config["seed"] + i for i in range(cell.seeds)]
    found = {"scale": place.scale, "seeds": seeds, "config": config,
             "command": cell.command(place), "seconds": {"total": 1.0},
             "versions": {"zsrl_jax": "1.2.3"},
             "data": {"source": "collected:x", "episodes": 4}}  # fmt: skip
    if cell.kind in ("score", "oracle"):
        returns = draw.uniform(100, 900, (cell.seeds, len(tasks), 1)).round(1)
        chance = np.full((len(tasks), 1), 40.0)
        return found | {
            "tasks": tasks,
            "returns": returns.tolist(),
            "random": chance.tolist(),
            "data_mean": [50.0] * len(tasks),
            "data_best": [600.0] * len(tasks),
        }
    if cell.kind == "dilution":
        trace = [1 / config["encoder"]["dim"]] * cell.seeds
        return found | {
            "dilution": {
                "trace": trace,
                "variance": dict.fromkeys(("uniform", "subtraj", "btd"), trace),
            }
        }
    near = {"share": {"btd": 0.5, "uniform": 0.25}, "cosine": {"btd": 0.8, "uniform": 0.3}}
    vectors = {
        name: draw.normal(size=(cell.seeds, 12, 4)) for name in ("subtraj", "btd", "uniform")
    }
    vectors["tasks"] = draw.normal(size=(cell.seeds, len(tasks), 4))
    np.savez(cell.folder(place) / "vectors.npz", **vectors)
    return found | {"task_space": {"tasks": tasks, "overlap": [near | {"threshold": 0.5}]}}
