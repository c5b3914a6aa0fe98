"""Train a cell and score it: python -m experiments.run --config=configs/cheetah_fb_btd.py"""

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags
from ml_collections import ConfigDict, config_flags

from zsrl_jax.commands import cli, program, trials
from zsrl_jax.data.summary import BEST_STEPS
from zsrl_jax.devices import processes
from zsrl_jax.errors import ConfigError, DivergedError
from zsrl_jax.evaluation import Scores
from zsrl_jax.runs import results
from zsrl_jax.settings.names import cell_name, is_own
from zsrl_jax.training import data_source
from zsrl_jax.training.pipeline import Finished, complete

CONFIG = config_flags.DEFINE_config_file(
    "config", help_string="FILE.py[:ARGUMENT]", lock_config=True
)
WORKDIR = flags.DEFINE_string("workdir", None, "run folder; default runs/<cell>[_<scale>][_<data>]")
ENOUGH = 0.7  # of the data's best: from here on the data is the limit
EARLY = flags.FlagValues()  # read before a config asks JAX for its devices
flags.DEFINE_string("coordinator", None, "HOST:PORT of process 0", flag_values=EARLY)
flags.DEFINE_integer("num_processes", None, "number of processes", flag_values=EARLY)
flags.DEFINE_integer("process_id", None, "index of this process, from 0", flag_values=EARLY)
flags.FLAGS.append_flag_values(EARLY)
TRIAL = flags.DEFINE_string("trial", None, "name of a trial: its settings and scores are recorded")
TRIALS = flags.DEFINE_string("trials", trials.FILE, "file to which a trial's line is appended")
FORCE = flags.DEFINE_bool("force", False, "continue in a run folder that has other settings")


def at_scale(config: ConfigDict, scale: str) -> str:
    """Return the flag that names the same cell at another scale."""
    if "oracle" in config:
        argument = ",".join([config.domain, *config.oracle.tasks, scale])
        return f"--config=configs/oracle.py:{argument}"
    named = f"configs/{cell_name(config)}.py"
    own = " --config.policy.kind=own" if is_own(config) else ""
    cell = f"configs/cell.py:{config.domain},{config.encoder.name},{config.tasks.sampler},{scale}"
    return f"--config={named}:{scale}" if Path(named).exists() else f"--config={cell}{own}"


def is_centred(config: ConfigDict) -> bool:
    """Tell whether a run's tasks have the mean behaviour taken out of them."""
    return "tasks" in config and not is_own(config) and bool(config.tasks.center)


def announce(config: ConfigDict) -> None:
    """Print which scale was chosen, why, and how to choose the other."""
    if any(arg.lstrip("-").startswith("config.scale") for arg in sys.argv[1:]):
        raise ConfigError(
            "config.scale cannot be set, because it decides many fields: "
            f"use {at_scale(config, config.scale)}"
        )
    other = {"laptop": "paper", "paper": "laptop", "smoke": "laptop"}[config.scale]
    reason = f"{config.scale} ({config.scale_reason})"
    centred = "tasks: behavioural, centred (config.tasks.center); " if is_centred(config) else ""
    print(f"scale: {reason}; {centred}for {other} scale: {at_scale(config, other)}")


def join() -> None:
    """Connect to the other processes of the run, if flags or SLURM name any."""
    try:
        EARLY(sys.argv, known_only=True)
    except flags.Error as error:
        raise ConfigError(str(error)) from error
    processes.join(EARLY.coordinator, EARLY.num_processes, EARLY.process_id)


def main(argv: list[str]) -> None:
    """Run every stage that is not done yet, then print and write the scores."""
    cli.refuse_arguments(argv)
    config = cli.read_config(CONFIG)
    data_source.refuse_unusable(config)
    announce(config)
    command = [*program("run"), *sys.argv[1:]]
    with _record(config, command) as note:
        finished = complete(config, None, WORKDIR.value, command=command, force=FORCE.value)
        if finished.results:
            note(finished)
    if finished.results:
        tell(finished)


def _record(config: ConfigDict, command: list[str]) -> AbstractContextManager[Any]:
    """Return what writes this run into the record of trials, if it is a trial."""
    if not TRIAL.value or not processes.is_first():
        return nullcontext(lambda finished: None)
    return trials.recorded(TRIAL.value, Path(TRIALS.value), config, command)


def tell(finished: Finished) -> None:
    """Print the scores and their file; raise if a seed failed."""
    unscored = "no scores: the domain has no simulator (zsrl_jax.evaluate takes an environment)"
    found = finished.results
    print(f"\n{finished.scores or unscored}")
    if finished.scores is not None and (sentence := verdict(finished.scores)):
        print(sentence)
    print(f"scale {found['scale']}, data {found['data']['source']}")
    print(f"results: {finished.file}   ({sum(found['seconds'].values()):.0f} s)")
    if found["failed"]:
        raise DivergedError(results.tell_failed(found) + "; the others finished")


def verdict(scores: Scores) -> str:
    """Say in one plain sentence how far an agent got, and what would help."""
    if (
        scores.data_mean is None
        or scores.data_best is None
        or not np.isfinite(scores.returns).all()
    ):
        return ""
    agent, best = float(scores.returns.mean()), float(scores.data_best.mean())
    text = (
        f"The agent gets {agent:.0f} of 1000 on average: {agent / scores.random.mean():.1f} times "
        f"the random policy, {agent / scores.data_mean.mean():.1f} times the data's mean episode, "
        f"{100 * agent / best:.0f} % of the data's best {BEST_STEPS} steps"
    )
    if agent < ENOUGH * best:
        return text + "; more updates (--config.policy.updates) or another seed would help."
    return text + "; wider data (--config.data.episodes, --config.data.path) would help now."


if __name__ == "__main__":
    cli.run(main, join)
