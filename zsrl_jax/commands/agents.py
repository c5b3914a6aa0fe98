"""Pack finished runs as agents that ship: python -m experiments.agents runs/cheetah_fb_btd

Each run becomes zsrl_jax/agents/<domain>.npz with its card <domain>.json. The scores on the card
are those of all seeds of the run's results.json; --results adds runs of other seeds of the same
config. The card also says how near the packed agent's answers are to the whole agent's.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

import zsrl_jax
from zsrl_jax.agent import Agent
from zsrl_jax.commands import cli, usage_of
from zsrl_jax.errors import ConfigError, DataError
from zsrl_jax.runs import results, shipped
from zsrl_jax.training.data_source import open_data
from zsrl_jax.web.clips import choose_clips

OUT = flags.DEFINE_string("out", str(shipped.FOLDER), "folder for the packed agents")
MEMBER = flags.DEFINE_integer("member", 0, "which training seed of the run is packed")
STATES = flags.DEFINE_integer("states", 0, "prompt states to keep; 0: as many as fit", 0)
TASKS = flags.DEFINE_integer("task_vectors", 0, "task vectors to keep; 0: as many as fit", 0)
RESULTS = flags.DEFINE_list("results", [], "more runs of the same config, other seeds, for scores")
SIZES = ((5120, 8000), (4096, 6000), (3072, 5000), (2560, 4000), (2048, 3000), (1024, 2000))
ASKED = ("speed", "-speed", "height", "-height", "uprightness", "angular_momentum_y", "-abs(speed)",
         "speed*(height>0.5)")  # fmt: skip


def main(argv: list[str]) -> None:
    """Pack every run that is named."""
    if len(argv) < 2:
        raise ConfigError(f"expected finished runs: {usage_of('agents', 'RUN...')}")
    if RESULTS.value and len(argv) > 2:
        raise ConfigError("--results belongs to one run: pack the runs one by one")
    for name in argv[1:]:
        print(pack(Path(name)), flush=True)


def pack(run: Path) -> str:
    """Pack one run; return the line that says what it became."""
    agent = zsrl_jax.load(run)
    if not isinstance(agent, Agent) or agent.domain is None:
        raise DataError(f"'{run}' is not an agent of a known domain: expected one, to pack it")
    if not 0 <= MEMBER.value < agent.num_seeds:
        raise ConfigError(f"--member={MEMBER.value}: the run has {agent.num_seeds} seed(s)")
    found = [_read(folder) for folder in (run, *map(Path, RESULTS.value))]
    if other := [r for r in found[1:] if r["tasks"] != found[0]["tasks"]]:
        raise DataError(f"--results has a run of other tasks ({other[0]['tasks']})")
    dataset = open_data(agent.config, True, collect_missing=False)
    clips = choose_clips(dataset, agent.domain)
    for states, tasks in SIZES:
        kept = STATES.value or states, TASKS.value or tasks
        small = shipped.reduce(agent, MEMBER.value, *kept)
        near = nearness(agent, small, MEMBER.value)
        card = _card(found) | {"cosine_to_whole": near}
        try:
            file, size = shipped.write(Path(OUT.value), agent.domain, small, clips, card)
            break
        except shipped.TooLargeError:
            if (states, tasks) == SIZES[-1] or (STATES.value and TASKS.value):
                raise
    least = min(near.values())
    return (
        f"{file}   ({size / 1e6:.2f} MB, {len(small.params.prompt_obs)} prompt states; cosine of "
        f"its z with the whole agent's: {least:.4f} or more)"
    )


def _read(run: Path) -> dict[str, Any]:
    file = run / results.FILE
    if not file.is_file():
        raise DataError(f"'{run}' has no {results.FILE}: expected a finished, scored run")
    return dict(json.loads(file.read_text()))


def _card(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return data, config, versions, the command, and the scores of all seeds."""
    first = found[0]
    returns = [seed for one in found for seed in one["returns"]]
    scores = np.asarray(returns, float).mean(axis=2)
    return {
        "scale": first["scale"],
        "seeds": [seed for one in found for seed in one["seeds"]],
        "packed_seed": first["seeds"][MEMBER.value],
        "tasks": first["tasks"],
        "returns": returns,
        "random": first["random"],
        "mean": np.nanmean(scores, axis=0).round(1).tolist(),
        "mean_of_packed_seed": scores[MEMBER.value].round(1).tolist(),
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


if __name__ == "__main__":
    cli.run(main)
