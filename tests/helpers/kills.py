"""Kill a run again and again, let it end, and compare it to one never killed, to the bit.

    python -m tests.helpers.kills FOLDER [--kills=50] [--inside=16] [--chains=5]

A chain is one run folder: it is killed, the same command is started again, and so on to its end.
Each kill has a random place between two saves (or inside one), later than the one before, so a
chain moves on; the last is past the training, while it evaluates. The first chain collects its own
data, under kills too. A start is the command's
own main, forked from a process that has the imports behind it: only they are spared.
The driver itself can be stopped: what is done stands in FOLDER/chain_*.json.
"""

import argparse
import collections
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp

from zsrl_jax.files import atomic
from zsrl_jax.runs import checkpoint, step_saves
from zsrl_jax.training import metrics

ROOT = Path(__file__).parents[2]
STAGES = ("encoder", "tasks", "policy", "agent")
EVERY, UPDATES = 5, 30
FIELDS = {"seeds": 2, "log_every": EVERY, "checkpoint_every": EVERY, "encoder.updates": UPDATES,
          "policy.updates": UPDATES, "evaluate.episodes": 1, "evaluate.every": UPDATES,
          "data.collect.num_envs": 2}  # fmt: skip
STEPS = tuple(range(EVERY, UPDATES + 1, EVERY))
PLACES = [("start", 0), *(("encoder", s) for s in STEPS), ("tasks", 1),
          *(("policy", s) for s in STEPS), ("agent", 0)]  # fmt: skip
COLLECTING = [("explorer", 0), ("explorer", 2), ("explorer", 4)]
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["experiments.run", "dm_control.suite", "orbax.checkpoint"])


def command(folder: Path, workdir: Path) -> list[str]:
    """Return the one command that starts a run and goes on with it."""
    fields = [f"--config.{name}={value}" for name, value in FIELDS.items()]
    config = "--config=configs/cell.py:cheetah,lra_p,btd,smoke"
    places = [f"--workdir={workdir}", f"--config.data.cache={folder / 'data'}"]
    return [sys.executable, "-m", "experiments.run", config, *fields, *places]


def start(folder: Path, workdir: Path) -> subprocess.Popen:
    """Start the command; what it prints goes into a file beside the run folder."""
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONUNBUFFERED": "1"}
    env.pop("ZSRL_DATA", None)
    with workdir.with_suffix(".out").open("w") as out:
        return subprocess.Popen(command(folder, workdir), cwd=ROOT, env=env, stdout=out, stderr=out)


def fork(folder: Path, workdir: Path):
    """Start the command's main in a process of its own that need not import anything."""
    out = workdir.with_suffix(".out")
    process = FORKED.Process(target=_main, args=(command(folder, workdir)[2:], out), daemon=True)
    process.start()
    return process


def _main(argv: list[str], out: Path) -> None:
    threading.Thread(target=_die_with_driver, daemon=True).start()
    with out.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.pop("ZSRL_DATA", None)
    os.chdir(ROOT)
    sys.argv = argv
    from zsrl_jax.commands import cli, run

    cli.run(run.main)


def _die_with_driver() -> None:
    """Leave no run behind, and no lock with it, where the driver itself is killed."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    multiprocessing.connection.wait([driver.sentinel])
    os.kill(os.getpid(), signal.SIGKILL)


def finish(folder: Path, workdir: Path) -> None:
    """Run the command to its end."""
    process = fork(folder, workdir)
    process.join()
    assert process.exitcode == 0, workdir.with_suffix(".out").read_text()[-2000:]


def parts(stage: Path) -> list[int]:
    """List the steps whose save is under way: newer than all whole ones (older are deletions)."""
    names = [name for name in _names(stage) if name.startswith("step_")]
    number = {name: int(re.findall(r"\d+", name)[0]) for name in names}
    last = max((n for name, n in number.items() if "." not in name), default=-1)
    under_way = [name for name, n in number.items() if name.endswith(".part") and n > last]
    return sorted(number[name] for name in under_way if _names(stage / name))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # not there yet, or renamed while we looked
        return []


def stages(data: Path, workdir: Path) -> dict[str, Path]:
    """Return where each stage saves, the explorer of the data too."""
    explorer = next(data.glob("data/*/*/explorer"), data / "data" / "none")
    return {"explorer": explorer} | {name: workdir / name for name in STAGES[:3]}


def saving(data: Path, workdir: Path) -> str:
    """Name the stage whose save is under way, or nothing."""
    found = [name for name, place in stages(data, workdir).items() if parts(place)]
    return "agent" if (workdir / "agent.part").exists() else "".join(found[:1])


def kill(data: Path, workdir: Path, place: tuple[str, int], inside: bool, draw) -> dict:
    """Start the command and kill it past a save, or inside it."""
    (name, step), begun = place, _time(workdir / ".lock")
    process = fork(data, workdir)

    def there() -> bool:
        if name == "start":
            return _time(workdir / ".lock") != begun
        if name == "agent":
            return (workdir / ("agent.part" if inside else "agent")).exists()
        stage = stages(data, workdir)[name]
        return step in parts(stage) if inside else step_saves.step_folder(stage, step).exists()

    while process.exitcode is None and not there():
        time.sleep(0.001)
    time.sleep(draw.uniform(0, 0.1 if inside else 0.8))
    process.kill()
    process.join()
    code = process.exitcode
    assert code in (0, -9), workdir.with_suffix(".out").read_text()[-2000:]
    return {"killed": code != 0, "place": place, "in_save": saving(data, workdir)}


def _time(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


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
    found += [name for name in names if results[0][name] != results[1][name]]
    data = [result["data"]["fingerprint"] for result in results]
    return found + ([] if data[0] == data[1] else ["data"])


def _tree(workdir: Path, stage: str):
    folder = workdir / "agent" if stage == "agent" else step_saves.newest(workdir / stage).folder
    assert folder is not None
    checkpoint.verify(folder)
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(folder.absolute() / "tree")


def chain(folder: Path, index: int, plan: list) -> list[dict]:
    """Kill one run as planned, let it end, and compare it; one that ends early begins anew."""
    log, data = folder / f"chain_{index}.json", folder / f"data_{index}" if index == 0 else folder
    done = json.loads(log.read_text()) if log.exists() else {"kills": [], "runs": []}
    data.mkdir(exist_ok=True)
    last = False
    while not last:
        workdir = folder / f"chain_{index}_{len(done['runs'])}"
        number = len(done["kills"])
        if number < len(plan):
            draw = random.Random(1000 * index + 10 * number + len(done["runs"]))
            record = kill(data, workdir, *plan[number], draw)
            if record["killed"]:
                done["kills"].append(record | {"run": workdir.name})
        else:
            finish(data, workdir)
            last = True
        if (workdir / "results.json").exists():
            done["runs"].append([workdir.name, differences(folder / "reference", workdir)])
        atomic.write_text(log, json.dumps(done))
    bad = dict(done["runs"])
    return [record | {"different": bad[record["run"]]} for record in done["kills"]]


def plans(kills: int, inside: int, chains: int) -> list[list]:
    """Draw for each chain the places of its kills, in their order, and which are inside a save."""
    draw, found = random.Random(0), []
    for index in range(chains):
        first, last = (COLLECTING if index == 0 else []), PLACES[-1]
        size = len(range(index, kills, chains)) - len(first) - 1
        chosen = sorted(draw.sample(range(len(PLACES) - 1), size))
        found.append([*first, *(PLACES[i] for i in chosen), last])
    able = [(i, j) for i, plan in enumerate(found) for j, p in enumerate(plan) if p[0] != "start"]
    cut = set(draw.sample(able, inside))
    return [[(p, (i, j) in cut) for j, p in enumerate(plan)] for i, plan in enumerate(found)]


def drive(folder: Path, kills: int, inside: int, chains: int, workers: int = 2) -> list[dict]:
    """Make the reference run, then all chains; return one record for each kill."""
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    if not (folder / "reference" / "results.json").exists():
        finish(folder, folder / "reference")
    with ThreadPoolExecutor(workers) as pool:
        numbered = enumerate(plans(kills, inside, chains))
        running = [pool.submit(chain, folder, index, plan) for index, plan in numbered]
        records = [record for part in running for record in part.result()]
    summary = {"records": records, "seconds": round(time.monotonic() - begun, 1)}
    atomic.write_text(folder / "kills.json", json.dumps(summary, indent=1))
    return records


def main() -> int:
    """Drive it from the command line; the exit code is 1 where a run differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name, default in (("kills", 50), ("inside", 16), ("chains", 5), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    records = drive(**vars(parser.parse_args()))
    places = collections.Counter(record["place"][0] for record in records)
    bad = [record for record in records if record["different"]]
    cut = sum(bool(record["in_save"]) for record in records)
    print(f"{len(records)} kills {dict(places)}, {cut} inside a save; {len(bad)} ended differently")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
