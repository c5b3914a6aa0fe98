"""A summary of a dataset: sizes, ranges, missing fields, coverage, rewards; and plots."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from zsrl_jax.data import Dataset
from zsrl_jax.data.episode import FIELDS, STATES
from zsrl_jax.envs import DOMAINS, quantities, relabel
from zsrl_jax.errors import DataError

PLOTTED = 20_000  # states in a picture
UPRIGHT = 0.8  # uprightness from which a robot is called upright
BEST_STEPS = 100  # length of the sub-trajectories that are called the data's best


def describe(dataset: Dataset) -> Iterator[str]:
    """Yield the lines of a dataset's summary."""
    kind, _, place = dataset.source.partition(":")
    length = dataset.length
    fields = {name: value for name in FIELDS if (value := getattr(dataset, name)) is not None}
    stored = sum(value.nbytes for value in fields.values())
    yield _row("format", f"{kind}, {place}")
    yield _row("domain", dataset.domain or "unknown")
    yield _row("episodes", f"{dataset.num_episodes}")
    yield _row("transitions", f"{dataset.num_transitions}")
    spread = f"{length.min()} to {length.max()}, mean {length.mean():.1f}"
    yield _row("lengths", spread if length.min() < length.max() else f"{length[0]} each")
    yield _row("terminal", f"{_terminals(dataset)} episodes end in a terminal state")
    yield _row(
        "bytes", f"{stored / 2**20:.1f} MiB, {stored / dataset.num_transitions:.1f} per transition"
    )
    for name, value in fields.items():
        yield _row(name, _range(dataset, name, value))
    missing = [name for name in FIELDS if name not in fields]
    yield _row("missing", ", ".join(missing) or "nothing")
    yield from (_row("note", line) for line in dataset.notes)
    yield from (_row("skipped", line) for line in dataset.skipped)
    for line in coverage(dataset):
        name, _, rest = line.strip().partition(": ")
        yield _row(name, rest) if rest else _row("coverage", name)
    for task, mean in task_means(dataset).items():
        yield _row(
            f"reward {task}", f"mean {mean:.4f} per step, {mean * length.mean():.1f} per episode"
        )


def coverage(dataset: Dataset) -> list[str]:
    """Return how much of its domain a dataset covers."""
    if dataset.domain is None or dataset.physics is None:
        return ["coverage unknown: the dataset has no physics of a known domain"]
    rows = np.arange(dataset.obs.shape[1])[None] <= dataset.length[:, None]
    states = state_coverage(dataset.domain, dataset.physics[rows])
    return [*states, *what_lasts(dataset.domain, dataset.physics, dataset.length)]


def state_coverage(domain: str, physics: np.ndarray) -> list[str]:
    """Return how much of a domain states [..., P] cover: percentiles of quantities, cells visited.

    Cells form a grid of side 0.1 over the named scalar quantities: their number is that of the
    different combinations of speed, height and uprightness in the data.
    """
    flat = physics.reshape(-1, physics.shape[-1])
    table = quantities(domain, flat)._asdict()
    scalars = {name: np.asarray(value) for name, value in table.items() if np.ndim(value) == 1}
    lines = []
    for name, value in scalars.items():
        low, mid, high = np.percentile(value, [1, 50, 99])
        lines.append(f"{name:>16}: 1 % {low:7.2f}   median {mid:7.2f}   99 % {high:7.2f}")
    cells = np.round(np.stack(list(scalars.values()), axis=1) / 0.1).astype(np.int32)
    count = len(np.unique(cells, axis=0))
    lines.append(f"{'state coverage':>16}: {count} cells of side 0.1 in {', '.join(scalars)}")
    return lines


def what_lasts(domain: str, physics: np.ndarray, length: np.ndarray) -> list[str]:
    """Return which speeds episodes [N, T + 1, P] keep up, and how much of the time they stand up.

    A speed that is kept up is a mean over BEST_STEPS steps in a row. A domain whose quantities are
    others has no such lines.
    """
    if not {"speed", "uprightness"} <= set(quantities(domain, physics[0, :1])._fields):
        return []
    speeds, upright = list[np.ndarray](), list[np.ndarray]()
    for states, steps in zip(physics, length, strict=True):
        found = quantities(domain, states[1:])  # padding too: one program for all lengths
        total = np.cumsum(np.pad(np.asarray(found.speed, np.float64)[:steps], (1, 0)))
        window = min(BEST_STEPS, int(steps))
        speeds.append((total[window:] - total[:-window]) / window)
        upright.append(np.asarray(found.uprightness)[:steps] > UPRIGHT)
    low, mid, high = np.percentile(np.concatenate(speeds), [1, 50, 99])
    share = np.concatenate(upright).mean()
    return [
        f"{'speed kept up':>16}: 1 % {low:7.2f}   median {mid:7.2f}   99 % {high:7.2f}   "
        f"(means over {BEST_STEPS} steps)",
        f"{'upright':>16}: {100 * share:.0f} % of the states (uprightness above {UPRIGHT})",
    ]


def _row(name: str, value: str) -> str:
    return f"{name:>22}: {value}"


def _terminals(dataset: Dataset) -> int:
    last = dataset.discount[np.arange(dataset.num_episodes), dataset.length - 1]
    return int((last == 0).sum())


def _range(dataset: Dataset, name: str, value: np.ndarray) -> str:
    """Return type, width and range of a field without its padding, episode by episode."""
    low, high, total = np.inf, -np.inf, 0.0
    for rows, steps in zip(value, dataset.length, strict=True):
        valid = rows[: steps + (name in STATES)]
        low, high = min(low, float(valid.min())), max(high, float(valid.max()))
        total += float(valid.mean(dtype=np.float64))
    width = value.shape[2] if value.ndim == 3 else 1
    mean = total / dataset.num_episodes
    return f"{width} x {value.dtype}, from {low:.4g} to {high:.4g}, mean {mean:.4g}"


def task_means(dataset: Dataset) -> dict[str, float]:
    """Return the mean reward of every task of a known domain over the states reached."""
    if dataset.domain not in DOMAINS or dataset.physics is None:
        return {}
    sums = dict.fromkeys(DOMAINS[dataset.domain].tasks, 0.0)
    for physics, steps in zip(dataset.physics, dataset.length, strict=True):
        for task in sums:
            sums[task] += float(relabel(dataset.domain, task, physics[1 : steps + 1]).sum())
    return {task: total / dataset.num_transitions for task, total in sums.items()}


def best_pieces(
    dataset: Dataset, tasks: Iterable[str], steps: int = BEST_STEPS
) -> np.ndarray | None:
    """Return 1000 x the reward per step of the data's best `steps` steps in a row, by task."""
    if dataset.physics is None or dataset.domain not in DOMAINS:
        return None
    tasks = list(tasks)
    best = np.zeros(len(tasks))
    for physics, length in zip(dataset.physics, dataset.length, strict=True):
        window = min(steps, int(length))
        for i, task in enumerate(tasks):
            reward = relabel(dataset.domain, task, physics[1 : length + 1])
            total = np.cumsum(np.pad(reward, (1, 0)))
            best[i] = max(best[i], float((total[window:] - total[:-window]).max() / window))
    return 1000 * best


def plot(dataset: Dataset, file: str | os.PathLike) -> Path:
    """Draw a dataset: lengths, actions, and quantities and rewards, or observations."""
    from matplotlib.figure import Figure

    kinds = Figure().canvas.get_supported_filetypes()
    if Path(file).suffix[1:].lower() not in kinds:
        raise DataError(f"plot '{file}': expected a name that ends in .{', .'.join(sorted(kinds))}")
    panels = list(_panels(dataset))
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.6 * rows), layout="constrained")
    axes = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for axis, (name, value) in zip(axes, panels, strict=False):
        axis.hist(np.ravel(value), bins=60, color="#33658a")
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.ticklabel_format(axis="x", useOffset=False)
        axis.set_yticks([])
        axis.spines[["top", "right", "left"]].set_visible(False)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(
        f"{dataset.domain or 'unknown domain'}: {dataset.num_episodes} episodes, "
        f"{dataset.num_transitions} transitions", fontsize=11,
    )  # fmt: skip
    figure.savefig(file, dpi=120)
    return Path(file)


def _panels(dataset: Dataset) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the values of each histogram."""
    place = dataset.reached(PLOTTED)
    if np.ptp(dataset.length):
        yield "steps per episode", dataset.length
    yield "action, all joints", dataset.action[place[0], place[1] - 1]
    if dataset.reward is not None and np.ptp(dataset.reward) > 0:
        yield "the file's own reward", dataset.reward[place[0], place[1] - 1]
    if dataset.domain in DOMAINS and dataset.physics is not None:
        physics = dataset.physics[place]
        for name, value in quantities(dataset.domain, physics)._asdict().items():
            if np.ndim(value) == 1:
                yield name, np.asarray(value)
        for task in DOMAINS[dataset.domain].tasks:
            yield f"reward of {task}", relabel(dataset.domain, task, physics)
    else:
        for i in range(min(dataset.spec.obs_dim, 6)):
            yield f"observation {i}", dataset.obs[place][:, i]
