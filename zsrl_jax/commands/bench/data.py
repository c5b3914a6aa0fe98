"""Speed and size of the packed store, and of sampling on the device.

    ratio = (seconds of the plain way) / (seconds of ours)

Pack and reopen: generated ExORL episodes (cheetah's widths, 1000 steps, deflated like ExORL's)
against a plain loop over np.load that stacks every key; the files are in the page cache for both.
Packing reads, checks and writes; the loop only reads. Bytes: of the store's files, and of the
arrays on the device, against the raw fields of a transition. Sampling: batches of 2048 transitions
drawn and gathered on the device in one program, against numpy on the host and a transfer of each
batch. The sides are timed in turn, --repeats times, and the best time of each counts. `cores` is
the number of cores that ours got. Peak memory is what packing adds to the process's memory.
"""

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import numpy as np

from zsrl_jax.data import Dataset, fit_normalizer, load_dataset, to_device
from zsrl_jax.data.episode import FIELDS
from zsrl_jax.data.formats import exorl
from zsrl_jax.data.sampling import draw_transitions

WANTED = {"pack": 2.0, "reopen": 50.0}
BATCH, STEPS = 2048, 1000


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, with the target beside each figure."""
    parser = argparse.ArgumentParser(prog="experiments.bench data", description=__doc__)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batches", type=int, default=200, help="batches per sampler")
    parser.add_argument("--json", type=Path, help="save the rows here")
    options = parser.parse_args(list(argv) if argv is not None else None)
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), options.episodes)
        rows = [*time_store(Path(folder), options.repeats)]
        dataset = load_dataset(folder, progress=False)
        rows += [*sizes(dataset), *time_sampling(dataset, options.repeats, options.batches)]
    print(f"{'':22}{'plain':>14}{'zsrl_jax':>14}{'ratio':>9}{'wanted':>9}{'cores':>7}")
    for row in rows:
        cells = [row.get("plain"), row["ours"], row.get("ratio"), row.get("wanted")]
        texts = ["" if cell is None else f"{cell:,.4g}" for cell in cells]
        cores = f"{row['cores']:.1f}" if "cores" in row else ""
        widths = (14, 14, 9, 9)
        line = "".join(f"{t:>{w}}" for t, w in zip(texts, widths, strict=True))
        print(
            f"{row['name']:22}{line}{cores:>7}  {row['unit']}{'  missed' if row['missed'] else ''}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def generate(folder: Path, episodes: int) -> None:
    """Write episodes of smooth noise, which deflates about as well as ExORL's states."""
    draw = np.random.default_rng(0)
    for i in range(episodes):
        physics = np.cumsum(draw.normal(size=(STEPS + 1, 18)), axis=0) / 30
        action = np.clip(draw.normal(size=(STEPS, 6)), -1, 1)
        rest = {"reward": physics[1:, 9]}
        exorl.write_episode(folder, i, physics[:, 1:], action, physics, rest)


def time_store(folder: Path, repeats: int) -> list[dict]:
    """Time packing and reopening against the loop, and the memory that packing takes."""
    files = exorl.list_episodes(folder)

    def loop() -> None:
        episodes = []
        for file in files:
            with np.load(file) as raw:
                episodes.append({key: raw[key] for key in raw.files})
        for key in episodes[0]:
            np.stack([episode[key] for episode in episodes])

    def clear() -> None:
        shutil.rmtree(folder / ".zsrl_store", ignore_errors=True)

    def pack() -> None:
        load_dataset(folder, progress=False)

    peak = _peak(pack)  # before the process has grown
    ways = [loop, pack, lambda: load_dataset(folder)]
    plain, packed, opened = _best(ways, repeats, before=clear)
    rows = [_row("pack", plain, packed, WANTED["pack"]), _row("reopen", plain, opened, 50.0)]
    return [*rows, {"name": "pack memory", "unit": "MiB", "ours": peak, "wanted": 500.0,
                    "missed": peak > 500}]  # fmt: skip


def sizes(dataset: Dataset) -> list[dict]:
    """Compare bytes per stored transition with the raw fields."""
    fields = {name: getattr(dataset, name) for name in FIELDS}
    raw = sum(x.dtype.itemsize * (x.shape[2] if x.ndim == 3 else 1) for x in fields.values())
    kept = sum(x.nbytes for x in fields.values()) / dataset.num_transitions
    store = to_device(dataset, fit_normalizer(dataset, "none"))
    device = sum(x.nbytes for x in store) / dataset.num_transitions
    needed = 4 * (sum(dataset.spec) + 1)
    pairs = {"bytes in the store": (raw, kept), "bytes on the device": (needed, device)}
    return [
        {"name": name, "unit": "per transition, raw first", "plain": a, "ours": b, "ratio": b / a,
         "wanted": 1.1, "missed": b > 1.1 * a}
        for name, (a, b) in pairs.items()
    ]  # fmt: skip


def time_sampling(dataset: Dataset, repeats: int, batches: int) -> list[dict]:
    """Compare transitions per second of both samplers, all on arrays in memory."""
    store = to_device(dataset, fit_normalizer(dataset, "none"))
    host = [np.array(x) for x in store]
    obs, action, discount, length = host
    ends, draw = np.cumsum(length), np.random.default_rng(0)

    def on_host() -> None:
        for _ in range(batches):
            flat = draw.integers(0, ends[-1], BATCH)
            episode = np.searchsorted(ends, flat, side="right")
            step = flat - (ends[episode] - length[episode])
            batch = (obs[episode, step], action[episode, step], obs[episode, step + 1],
                     discount[episode, step])  # fmt: skip
            jax.block_until_ready(jax.device_put(batch))

    def many(key, store):
        def body(total, step):
            batch = draw_transitions(jax.random.fold_in(key, step), store, BATCH)
            return total + sum(x.sum() for x in batch[:4]), None  # every value is used

        return jax.lax.scan(body, 0.0, jax.numpy.arange(batches))[0]

    program = jax.jit(many)

    def on_device() -> None:
        program(jax.random.key(0), store).block_until_ready()

    on_device()
    slow, fast = _best([on_host, on_device], repeats)
    total = BATCH * batches
    return [
        {"name": "sampling", "unit": f"transitions/s, batch {BATCH}, {jax.default_backend()}",
         "plain": total / slow[0], "ours": total / fast[0], "ratio": slow[0] / fast[0],
         "cores": fast[1], "missed": False}
    ]  # fmt: skip


def _row(name: str, plain: tuple, ours: tuple, wanted: float) -> dict:
    ratio = plain[0] / ours[0]
    return {"name": name, "unit": "s", "plain": plain[0], "ours": ours[0], "ratio": ratio,
            "wanted": wanted, "cores": ours[1], "missed": ratio < wanted}  # fmt: skip


def _best(
    contestants: Sequence[Callable[[], object]],
    repeats: int,
    before: Callable[[], object] = lambda: None,
) -> list[tuple[float, float]]:
    """Return the best time of each and the cores it used then; `before` starts every round."""
    times: list[list[tuple[float, float]]] = [[] for _ in contestants]
    for _ in range(repeats):
        before()
        for run, taken in zip(contestants, times, strict=True):
            begin, worked = time.perf_counter(), time.process_time()
            run()
            seconds = time.perf_counter() - begin
            taken.append((seconds, (time.process_time() - worked) / seconds))
    return [min(taken) for taken in times]


def _peak(run: Callable[[], None]) -> float:
    """Return the peak anonymous memory of a call in MiB, without the page cache."""

    def held() -> float:
        status = Path("/proc/self/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) / 1024

    before, seen, done = held(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            seen.append(held())

    watcher = threading.Thread(target=watch)
    watcher.start()
    run()
    done.set()
    watcher.join()
    return max(max(seen) - before, 0.0)


if __name__ == "__main__":
    main()
