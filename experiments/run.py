"""Train a cell and score it: python -m experiments.run --config=configs/cheetah_fb_btd.py"""

import importlib.metadata
import json
import platform
import sys
import time
from pathlib import Path

import jax
from absl import flags
from ml_collections import config_flags

from experiments import cli
from zsrl_jax import evaluate, pipeline
from zsrl_jax.checkpoint import write_text
from zsrl_jax.errors import ConfigError
from zsrl_jax.source import open_data

CONFIG = config_flags.DEFINE_config_file(
    "config", help_string="FILE.py[:ARGUMENT]", lock_config=True
)
WORKDIR = flags.DEFINE_string("workdir", None, "run folder; default runs/<cell>")
PACKAGES = ("jax", "flax", "optax", "distrax", "orbax-checkpoint", "dm_control", "mujoco", "numpy")


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found, "backend": jax.default_backend()}


def at_scale(config, scale: str) -> str:
    """Return the flag that names the same cell at another scale."""
    named = f"configs/{config.cell}.py"
    cell = f"configs/cell.py:{config.domain},{config.encoder.name},{config.tasks.sampler},{scale}"
    return f"--config={named}:{scale}" if Path(named).exists() else f"--config={cell}"


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


def main(_) -> None:
    """Run every stage that is not done yet, then print and write the scores."""
    config = cli.read_config(CONFIG)
    start = time.monotonic()
    workdir = Path(WORKDIR.value or Path("runs") / config.cell)
    announce(config)
    pipeline.check(config)
    dataset = open_data(config)
    print(f"data: {dataset}")
    agent = pipeline.train(config, dataset, workdir)
    scores = evaluate(agent, episodes=config.evaluate.episodes, seed=config.evaluate.seed)
    seconds = json.loads((workdir / "seconds.json").read_text())
    seconds["total"] = round(time.monotonic() - start, 1)
    results = {
        "tasks": list(scores.tasks),
        "returns": scores.returns.tolist(),
        "random": scores.random.tolist(),
        "r2": scores.r2.tolist(),
        "cosine": scores.cosine.tolist(),
        "diverged": list(scores.blown),
        "scale": config.scale,
        "data": {
            "source": dataset.source,
            "episodes": dataset.num_episodes,
            "transitions": dataset.num_transitions,
            "fingerprint": dataset.fingerprint(),
        },
        "seeds": [config.seed + i for i in range(config.seeds)],
        "config": json.loads(config.to_json_best_effort()),
        "versions": versions(),
        "command": ["python", "-m", "experiments.run", *sys.argv[1:]],
        "seconds": seconds,
    }
    write_text(workdir / "results.json", json.dumps(results, indent=1))
    print(f"\n{scores}\nscale {config.scale}, data {dataset.source}")
    print(f"results: {workdir / 'results.json'}   ({seconds['total']:.0f} s)")


if __name__ == "__main__":
    cli.run(main)
