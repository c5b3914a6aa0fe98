"""A finished run -> the agent of its domain that ships, with its card.

The scores on the card are those of all seeds of the run's results.json, and of more runs of the
same config. The card also says how near the packed agent's answers are to the whole agent's.
"""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zsrl_jax.agent import Agent
from zsrl_jax.data import Dataset
from zsrl_jax.errors import DataError
from zsrl_jax.runs import results, shipped
from zsrl_jax.runs.agent_files import load
from zsrl_jax.training.data_source import open_data
from zsrl_jax.web.clips import choose_clips

SIZES = (  # states and task vectors; states are worth more, so vectors are given up first
    (5120, 8000), (5120, 5000), (5120, 3000), (4096, 3000), (3072, 3000), (2560, 2500),
    (2048, 2000), (1024, 1500),
)  # fmt: skip
ASKED = ("speed", "-speed", "height", "-height", "uprightness", "angular_momentum_y", "-abs(speed)",
         "speed*(height>0.5)")  # fmt: skip


class Sizes(NamedTuple):
    """How many prompt states and task vectors to keep; 0: as many as fit."""

    states: int = 0
    task_vectors: int = 0


def pack(
    run: Path,
    out: Path = shipped.FOLDER,
    *,
    member: int = 0,
    sizes: Sizes = Sizes(),  # noqa: B008
    more: Sequence[Path] = (),
    dataset: Dataset | None = None,
) -> str:
    """Pack one run; return the line that says what it became.

    `more` are runs of the same config and other seeds, for the scores. `dataset` is the run's data,
    of which clips are kept; default: where its config says.
    """
    agent = load(run)
    if not isinstance(agent, Agent) or agent.domain is None:
        raise DataError(f"'{run}' is not an agent of a known domain: expected one, to pack it")
    if not 0 <= member < agent.num_seeds:
        raise DataError(f"member {member}: the run has {agent.num_seeds} seed(s)")
    found = [_read(folder) for folder in (run, *more)]
    if other := [r for r in found[1:] if r["tasks"] != found[0]["tasks"]]:
        raise DataError(f"a run for more scores has other tasks ({other[0]['tasks']})")
    dataset = dataset or open_data(agent.config, True, collect_missing=False)
    clips = choose_clips(dataset, agent.domain)
    for states, tasks in SIZES:
        small = shipped.reduce(agent, member, sizes.states or states, sizes.task_vectors or tasks)
        near = nearness(agent, small, member)
        card = _card(found, member) | {"cosine_to_whole": near}
        try:
            file, size = shipped.write(out, agent.domain, small, clips, card)
            break
        except shipped.TooLargeError:
            if (states, tasks) == SIZES[-1] or all(sizes):
                raise
    return (
        f"{file}   ({size / 1e6:.2f} MB, {len(small.params.prompt_obs)} prompt states; cosine of "
        f"its z with the whole agent's: {min(near.values()):.4f} or more)"
    )


def _read(run: Path) -> dict[str, Any]:
    file = run / results.FILE
    if not file.is_file():
        raise DataError(f"'{run}' has no {results.FILE}: expected a finished, scored run")
    return dict(json.loads(file.read_text()))


def _card(found: list[dict[str, Any]], member: int) -> dict[str, Any]:
    """Return data, config, versions, the command, and the scores of all seeds."""
    first = found[0]
    returns = [seed for one in found for seed in one["returns"]]
    scores = np.asarray(returns, float).mean(axis=2)
    return {
        "scale": first["scale"],
        "seeds": [seed for one in found for seed in one["seeds"]],
        "packed_seed": first["seeds"][member],
        "tasks": first["tasks"],
        "returns": returns,
        "random": first["random"],
        "mean": np.nanmean(scores, axis=0).round(1).tolist(),
        "mean_of_packed_seed": scores[member].round(1).tolist(),
        "data": {k: v for k, v in first["data"].items() if k != "source"},
        "versions": first["versions"],
        "command": _command(first),
        "config": _without_places(first["config"]),
    }


def _command(found: dict[str, Any]) -> str:
    """Return the command that made a run, without folders of this machine."""
    words = [word for word in found.get("command") or [] if "workdir" not in word]
    return " ".join(word for word in words if "=/" not in word)


def _without_places(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config whose folders are names, not paths of this machine."""
    data = {k: Path(v).name if isinstance(v, str) and Path(v).is_absolute() else v
            for k, v in config["data"].items()}  # fmt: skip
    return config | {"data": data}


def nearness(whole: Agent, small: Agent, member: int) -> dict[str, float]:
    """Return the cosine between both agents' answers, for each task and a few reward texts."""
    near = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some rewards are hardly expressed, by both
        for text in (*whole.task_names, *ASKED):
            one, other = whole.infer(reward=text)[member], small.infer(reward=text)[0]
            near[text] = round(float(one @ other / np.linalg.norm(one) / np.linalg.norm(other)), 4)
    return near
