"""Several processes over loopback that train one run by command."""

import os
import socket
import subprocess
import sys

from helpers.person import ROOT
from zsrl_jax import load
from zsrl_jax.training import metrics

# Seconds that a process may take. A machine that is busy with other work may need more.
PATIENCE = float(os.environ.get("ZSRL_TEST_SECONDS", "500"))
FIELDS = {
    "seeds": 2, "log_every": 5, "checkpoint_every": 10, "encoder.updates": 20, "encoder.dim": 4,
    "policy.updates": 20, "tasks.num_subtrajectories": 60, "data.episodes": 2,
    "evaluate.episodes": 1,
}  # fmt: skip


def arguments(folder, name, **fields):
    found = {**FIELDS, "data.cache": folder / "data", **fields}
    return ["--config=configs/cell.py:cheetah,lra_p,btd,smoke", f"--workdir={folder / name}",
            *(f"--config.{field}={value}" for field, value in found.items())]  # fmt: skip


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(args, num=2, each=lambda i: []):
    """Start the command in several processes that meet at a free port."""
    at = [f"--coordinator=127.0.0.1:{free_port()}", f"--num_processes={num}"]
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "experiments.run", *args, *each(i), *at, f"--process_id={i}"],
            cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for i in range(num)
    ]  # fmt: skip


def ended(processes):
    """Wait for all; return their codes, and what they printed. None is left behind."""
    try:
        told = [process.communicate(timeout=PATIENCE) for process in processes]
    finally:
        for process in processes:
            process.kill()  # nothing happens to those that have ended
    return [process.returncode for process in processes], told


def params(folder):
    return load(folder).params._asdict()


def lines(folder):
    return [{k: v for k, v in x.items() if k != "seconds"} for x in metrics.read(folder)]
