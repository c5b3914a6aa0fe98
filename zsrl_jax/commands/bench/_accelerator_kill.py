"""A real run in a process of its own, killed after a save and started again: is it the same?

The runs come before this process uses the device: a TPU serves one process at a time, and on a GPU
JAX takes three quarters of the memory when it starts. A GPU's compiler times its kernels, and may
choose others in the next process: here it may not, so that equal runs are equal to the last bit.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from zsrl_jax.errors import DataError
from zsrl_jax.runs import step_saves

RUN = [
    "run", "--config=cell:cheetah,lra_p,btd,smoke", "--config.seeds=2", "--config.log_every=10",
    "--config.checkpoint_every=20", "--config.encoder.updates=20", "--config.policy.updates=600",
    "--config.data.episodes=2", "--config.evaluate.episodes=1",
]  # fmt: skip

FIXED = {"gpu": " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"}


def backend() -> str:
    """Ask a process of its own which kind of device JAX sees."""
    words = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"JAX does not start: {last}")
    return done.stdout.split()[-1]


def killed_and_resumed(folder: Path, fields: Sequence[str] = (), backend: str = "cpu") -> float:
    """Return the largest difference between a run killed once and a straight one; 0 is right."""
    env = {**os.environ, "XLA_FLAGS": os.environ.get("XLA_FLAGS", "") + FIXED.get(backend, "")}
    words = [sys.executable, "-m", "zsrl_jax", *RUN, f"--config.data.cache={folder / 'data'}"]
    _finish([*words, *fields, f"--workdir={folder / 'straight'}"], env)
    cut = [*words, *fields, f"--workdir={folder / 'cut'}"]
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(cut, env=env, stdout=nowhere, stderr=nowhere)
    while step_saves.newest(folder / "cut" / "policy", whole=False).folder is None:
        if process.poll() is not None:
            raise DataError("the run ended before it could be killed: see whether it runs alone")
        time.sleep(0.02)
    process.kill()
    process.wait()
    said = _finish(cut, env)
    if "policy: goes on from update" not in said:
        raise DataError("the killed run did not go on from its save")
    return _difference(folder / "straight", folder / "cut")


def _finish(words: Sequence[str], env: dict[str, str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"a run ended with code {done.returncode}: {last}")
    return done.stdout


def _difference(one: Path, other: Path) -> float:
    from zsrl_jax.runs.agent_files import load

    pairs: Any = zip(*(jax.tree.leaves(load(place).params) for place in (one, other)), strict=True)
    return max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in pairs)
