"""Kill a run again and again, let it end, and compare it to one never killed, to the bit.

    python -m tests.kills FOLDER [--kills=50] [--inside=10] [--chains=5]

A chain is a run folder: it is killed some times, each time with the same command started again,
then runs to its end. The driver itself can be stopped: what is done stands in FOLDER/kills.json.
"""

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp

from zsrl_jax import checkpoint, metrics, saves

ROOT = Path(__file__).parent.parent
STAGES = ("encoder", "tasks", "policy", "agent")
FIELDS = {"seeds": 2, "log_every": 10, "checkpoint_every": 10, "encoder.updates": 100,
          "policy.updates": 100, "evaluate.episodes": 1, "evaluate.every": 50}  # fmt: skip


def command(folder: Path, workdir: Path) -> list[str]:
    """Return the one command that starts a run and goes on with it."""
    fields = [f"--config.{name}={value}" for name, value in FIELDS.items()]
    config = "--config=configs/cell.py:cheetah,fb,btd,smoke"
    places = [f"--workdir={workdir}", f"--config.data.cache={folder / 'data'}"]
    return [sys.executable, "-m", "experiments.run", config, *fields, *places]


def start(folder: Path, workdir: Path) -> subprocess.Popen:
    """Start the command; what it prints goes into a file beside the run folder."""
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONUNBUFFERED": "1"}
    env.pop("ZSRL_DATA", None)
    with workdir.with_suffix(".out").open("w") as out:
        return subprocess.Popen(command(folder, workdir), cwd=ROOT, env=env, stdout=out, stderr=out)


def finish(folder: Path, workdir: Path) -> None:
    """Run the command to its end."""
    with start(folder, workdir) as process:
        assert process.wait() == 0, workdir.with_suffix(".out").read_text()[-2000:]


def saving(workdir: Path) -> bool:
    """Tell whether a save is under way: its folder has the suffix of one."""
    try:
        return any(workdir.glob("*/step_*.part/*")) or (workdir / "agent.part").exists()
    except FileNotFoundError:  # it was renamed while we looked
        return False


def kill(folder: Path, workdir: Path, inside: bool, draw: random.Random, span: float) -> dict:
    """Start the command and kill it: at a random moment, or inside a random one of its saves."""
    locked, came = _time(workdir / ".lock"), _progress(workdir)
    with start(folder, workdir) as process:
        if inside:
            for _ in range(draw.randint(1, 4)):
                _wait(process, lambda: not saving(workdir))
                _wait(process, lambda: saving(workdir))
            time.sleep(draw.uniform(0, 0.08))
        else:
            _wait(process, lambda: _time(workdir / ".lock") != locked)  # it has begun
            if draw.random() < 0.85:
                _wait(process, lambda: _progress(workdir) != came)
            time.sleep(draw.uniform(0, span))
        process.send_signal(signal.SIGKILL)
        code = process.wait()
    assert code in (0, -signal.SIGKILL), workdir.with_suffix(".out").read_text()[-2000:]
    stage = next((s for s in reversed(STAGES) if (workdir / s).exists()), "start")
    return {"killed": code != 0, "stage": stage, "in_save": saving(workdir)}


def _time(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


def _progress(workdir: Path) -> tuple[int, int]:
    return _time(workdir / "metrics.jsonl"), _time(workdir / "agent")


def _wait(process: subprocess.Popen, what) -> None:
    while process.poll() is None and not what():
        time.sleep(0.002)


def differences(one: Path, other: Path) -> list[str]:
    """Name what is not bit-equal between two finished runs."""
    found = []
    for stage in STAGES:
        trees = [_tree(workdir, stage) for workdir in (one, other)]
        leaves = [jax.tree_util.tree_leaves_with_path(tree) for tree in trees]
        same = len(leaves[0]) == len(leaves[1]) > 0
        same &= all(p == q and np.array_equal(a, b, equal_nan=True)
                    for (p, a), (q, b) in zip(*leaves, strict=False))  # fmt: skip
        found += [] if same else [stage]
    lines = [[{k: v for k, v in line.items() if k != "seconds"} for line in metrics.read(workdir)]
             for workdir in (one, other)]  # fmt: skip
    found += [] if lines[0] == lines[1] and lines[0] else ["metrics"]
    results = [json.loads((workdir / "results.json").read_text()) for workdir in (one, other)]
    names = ("returns", "random", "r2", "ridge", "cosine")
    return found + [name for name in names if results[0][name] != results[1][name]]


def _tree(workdir: Path, stage: str):
    folder = workdir / "agent" if stage == "agent" else saves.newest(workdir / stage).folder
    assert folder is not None
    checkpoint.verify(folder)
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(folder.absolute() / "tree")


def chain(folder: Path, index: int, plan: list[bool], seconds: float) -> list[dict]:
    """Kill one run as planned, let it end, and compare it; one that ends early begins anew."""
    log, reference = folder / f"chain_{index}.json", folder / "reference"
    done = json.loads(log.read_text()) if log.exists() else {"kills": [], "runs": []}
    span, last = 2 * seconds / len(plan), False
    while not last:
        workdir = folder / f"chain_{index}_{len(done['runs'])}"
        number = len(done["kills"])
        if number < len(plan):
            draw = random.Random(1000 * index + 10 * number + len(done["runs"]))
            record = kill(folder, workdir, plan[number], draw, span)
            if record["killed"]:
                done["kills"].append(record | {"run": workdir.name})
        else:
            finish(folder, workdir)
            last = True
        if (workdir / "results.json").exists():
            done["runs"].append([workdir.name, differences(reference, workdir)])
        checkpoint.write_text(log, json.dumps(done))
    bad = dict(done["runs"])
    return [record | {"different": bad.get(record["run"], [])} for record in done["kills"]]


def drive(folder: Path, kills: int, inside: int, chains: int, workers: int = 2) -> list[dict]:
    """Make the reference run, then all chains; return one record for each kill."""
    folder.mkdir(parents=True, exist_ok=True)
    reference, begun = folder / "reference", time.monotonic()
    if not (reference / "results.json").exists():
        finish(folder, reference)
    spent = json.loads((reference / "results.json").read_text())["seconds"]
    seconds = spent["total"] - spent["data"]
    plan = [number < inside for number in range(kills)]
    random.Random(0).shuffle(plan)
    with ThreadPoolExecutor(workers) as pool:
        parts = [pool.submit(chain, folder, i, plan[i::chains], seconds) for i in range(chains)]
        records = [record for part in parts for record in part.result()]
    summary = {"records": records, "seconds": round(time.monotonic() - begun, 1)}
    checkpoint.write_text(folder / "kills.json", json.dumps(summary, indent=1))
    return records


def main() -> int:
    """Drive it from the command line; the exit code is 1 where a run differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name, default in (("kills", 50), ("inside", 10), ("chains", 5), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    records = drive(**vars(parser.parse_args()))
    for name in ("stage", "in_save"):
        print(f"{name}: {dict(collections.Counter(record[name] for record in records))}")
    bad = [record for record in records if record["different"]]
    print(f"{len(records)} kills, {len(bad)} ended differently")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
