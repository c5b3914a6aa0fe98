"""Train a cell and score it: python -m experiments.run --config=configs/cheetah_fb_btd.py"""

import importlib.metadata
import json
import platform
import sys
import time
from pathlib import Path

import jax
import numpy as np
from absl import flags
from ml_collections import config_flags

from experiments import cli
from zsrl_jax import Dataset, Scores, evaluate, lock, resume, signals, train
from zsrl_jax.checkpoint import write_text
from zsrl_jax.errors import ConfigError, DivergedError
from zsrl_jax.settings import check
from zsrl_jax.source import open_data
from zsrl_jax.stage import cell_name, is_own

CONFIG = config_flags.DEFINE_config_file(
    "config", help_string="FILE.py[:ARGUMENT]", lock_config=True
)
WORKDIR = flags.DEFINE_string("workdir", None, "run folder; default runs/<cell>")
FORCE = flags.DEFINE_bool("force", False, "go on in a run folder of other settings")
PACKAGES = ("jax", "flax", "optax", "distrax", "orbax-checkpoint", "dm_control", "mujoco", "numpy")


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found, "backend": jax.default_backend()}


def at_scale(config, scale: str) -> str:
    """Return the flag that names the same cell at another scale."""
    if "oracle" in config:
        argument = ",".join([config.domain, *config.oracle.tasks, scale])
        return f"--config=configs/oracle.py:{argument}"
    named = f"configs/{cell_name(config)}.py"
    own = " --config.policy.kind=own" if is_own(config) else ""
    cell = f"configs/cell.py:{config.domain},{config.encoder.name},{config.tasks.sampler},{scale}"
    return f"--config={named}:{scale}" if Path(named).exists() else f"--config={cell}{own}"


def announce(config) -> None:
    """Tell which scale was chosen, why, and how to choose the other."""
    if any(arg.lstrip("-").startswith("config.scale") for arg in sys.argv[1:]):
        raise ConfigError(
            "config.scale cannot be set by itself, it stands for many fields: "
            f"use {at_scale(config, config.scale)}"
        )
    other = {"laptop": "paper", "paper": "laptop", "smoke": "laptop"}[config.scale]
    reason = f"{config.scale} ({config.scale_reason})"
    print(f"scale: {reason}; for {other} scale: {at_scale(config, other)}")


def main(argv) -> None:
    """Run every stage that is not done yet, then print and write the scores."""
    cli.refuse_arguments(argv)
    config = cli.read_config(CONFIG)
    announce(config)
    check(config)
    workdir = Path(WORKDIR.value or Path("runs") / cell_name(config))
    start = time.monotonic()
    dataset = open_data(config)
    data_seconds = time.monotonic() - start
    print(f"data: {dataset}")
    with signals.caught(), lock.held(workdir):
        train_and_score(config, dataset, workdir, data_seconds)


def train_and_score(config, dataset: Dataset, workdir: Path, data_seconds: float) -> None:
    """Train what is not trained yet, score it, and write the results."""
    agent = train(config, dataset, workdir, force=FORCE.value)
    start = time.monotonic()
    scores = None
    if agent.domain is not None:
        scores = evaluate(agent, episodes=config.evaluate.episodes, seed=config.evaluate.seed)
    seconds = {"data": data_seconds, **json.loads((workdir / "seconds.json").read_text())}
    seconds["evaluate"] = time.monotonic() - start
    seconds = {stage: round(spent, 1) for stage, spent in seconds.items()}
    seconds["total"] = round(sum(seconds.values()), 1)
    failed = resume.failed(workdir)
    if scores and failed:
        scores = scores.without({failure.seed - config.seed for failure in failed.values()})
    results = describe(config, dataset, scores) | {
        "seconds": seconds,
        "failed": [failure._asdict() for failure in failed.values()],
        "forced": resume.forced(workdir),
    }
    write_text(workdir / "results.json", json.dumps(results, indent=1, allow_nan=False))
    unscored = "no scores: the domain has no simulator (zsrl_jax.evaluate takes an environment)"
    print(f"\n{scores or unscored}\nscale {config.scale}, data {dataset.source}")
    print(f"results: {workdir / 'results.json'}   ({seconds['total']:.0f} s)")
    if failed:
        raise DivergedError("; ".join(map(str, failed.values())) + "; the others finished")


def describe(config, dataset: Dataset, scores: Scores | None) -> dict:
    """Return what a result must carry: scores, config, versions, scale, data and command."""
    return _scored(scores) | {
        "scale": config.scale,
        "data": {
            "source": dataset.source,
            "episodes": dataset.num_episodes,
            "transitions": dataset.num_transitions,
            "notes": list(dataset.notes),
            "skipped": list(dataset.skipped),
            "fingerprint": dataset.fingerprint(),
        },
        "seeds": [config.seed + i for i in range(config.seeds)],
        "config": json.loads(config.to_json_best_effort()),
        "versions": versions(),
        "command": ["python", "-m", "experiments.run", *sys.argv[1:]],
    }


def _scored(scores: Scores | None) -> dict:
    """Return the scores of a result: none where the domain has no simulator."""
    if scores is None:
        return {"tasks": [], "returns": [], "random": []}
    return {
        "tasks": list(scores.tasks),
        "returns": finite(scores.returns),
        "random": scores.random.tolist(),
        "r2": finite(scores.r2),
        "ridge": finite(scores.ridge),
        "cosine": finite(scores.cosine),
        "diverged": list(scores.blown),
    }


def finite(values: np.ndarray) -> list:
    """Return nested lists with None where a value is not a number, which JSON does not know."""
    table = values.astype(object)
    table[~np.isfinite(values)] = None
    return table.tolist()


if __name__ == "__main__":
    cli.run(main)
