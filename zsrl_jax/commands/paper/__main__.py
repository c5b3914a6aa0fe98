"""Run a study of the paper and draw it: python -m experiments.paper NAME --scale=laptop

NAME is main, spread, dimension, alpha, samplers, dilution, components, subtrajectories, task_space,
settings, or all. A cell is one run of a study. Finished cells are skipped, unfinished ones go on.
Runs and figures are written to --out.
"""

import os
import sys
from pathlib import Path

from absl import flags

from zsrl_jax.commands import cli
from zsrl_jax.commands.paper.cells import Cell, Place, cells_of, parse_fields
from zsrl_jax.commands.paper.jobs import Jobs, parse_parameters, run_jobs
from zsrl_jax.commands.paper.launch import accelerators, cores_for_cells, part, run_here, waves
from zsrl_jax.commands.paper.plan import again, check_folders, narrow, study_names, tell, write_plan
from zsrl_jax.commands.paper.progress import Progress
from zsrl_jax.commands.report.markdown import write_study
from zsrl_jax.commands.report.tables import as_text
from zsrl_jax.devices import signals
from zsrl_jax.settings import checks
from zsrl_jax.settings.scales import StudySize, choose_scale

SCALE = flags.DEFINE_string("scale", "auto", "laptop, paper, smoke, or auto (by the machine)")
OUT = flags.DEFINE_string("out", "runs/paper", "folder for runs and figures")
DOMAINS = flags.DEFINE_list("domains", [], "only these; default: the study's own")
ENCODERS = flags.DEFINE_list("encoders", [], "only these; default: the study's own")
SAMPLERS = flags.DEFINE_list("samplers", [], "only these of the study's own; default: all")
ORACLE = flags.DEFINE_bool("oracle", True, "also TD3 on true rewards, where the study has it")
SEEDS = flags.DEFINE_integer("seeds", 0, "seeds of every cell; default: the scale's", 0)
COLLECTIONS = flags.DEFINE_integer(
    "collections", 0, "datasets that the seeds are spread over; default: the scale's", 0
)
SET = flags.DEFINE_multi_string("set", [], "a config field for every cell, as policy.updates=5000")
LAUNCHER = flags.DEFINE_enum("launcher", "local", ["local", "slurm"], "where cells run")
JOBS = flags.DEFINE_integer(
    "jobs", 0, "cells at once; default: one per local accelerator or core, on SLURM all", 0
)
DRY = flags.DEFINE_bool("dry", False, "only print what would run: cells, updates, times")
SLURM = flags.DEFINE_multi_string("slurm", [], "sbatch options, as partition=gpu or time=720")


def main(argv) -> None:
    """Run every cell that is not done, then draw."""
    names = study_names(argv[1:])
    if max(len(accelerators()), JOBS.value) > 1:  # jobs share memory: none may take all of it
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    scale, reason = choose_scale(SCALE.value)
    size = StudySize(tuple(DOMAINS.value), tuple(ENCODERS.value), SEEDS.value, COLLECTIONS.value)
    place = Place(Path(OUT.value), scale, size, parse_fields(SET.value))
    plans = {name: cells_of(name, place) for name in names}
    plans = narrow(plans, SAMPLERS.value, ORACLE.value)
    for cell in dict.fromkeys(cell for cells in plans.values() for cell in cells):
        checks.check(cell.config(place))
    if DRY.value:
        print(tell(plans, place))
        return
    encoders, rest = waves([cell for cells in plans.values() for cell in cells])
    check_folders([*encoders, *rest], place)
    for name, cells in plans.items():
        write_plan(name, cells, place, again(name, sys.argv[1:], scale))
    print(f"{', '.join(names)} at {scale} scale ({reason}): {len(rest)} cells, "
          f"{len(encoders)} encoders shared by them; under {place.root}")  # fmt: skip
    with signals.caught():
        failed = run([*encoders, *rest], place)
    for name in names:
        section, files = write_study(place.root / f"{name}.study.json", place.root / "figures")
        print("".join(f"\n{as_text(table)}\n" for table in section.tables))
        print("".join(f"{note}\n" for note in section.notes))
        print("\n".join(f"{name}: {file}" for file in files))
    if failed:
        told = "".join(f"\n  {cell.name}: {reason}" for cell, reason in failed.items())
        print(f"error: {len(failed)} cells failed:{told}", file=sys.stderr)
        sys.exit(1)


def jobs_here(scale: str) -> Jobs:
    """Return how many cells this machine runs at once: --jobs, or as many as is fastest."""
    several = len(accelerators()) > 1
    cores = () if several else cores_for_cells(scale)
    at_once = JOBS.value or (len(accelerators()) if several else len(cores) or 1)
    pinned = cores if at_once <= len(cores) else ()  # more cells than cores: not pinned
    return Jobs("local", at_once, {"timeout_min": 60 * 24 * 30}, pinned)


def run(cells: list[Cell], place: Place) -> dict[Cell, str]:
    """Run the cells that are not done, here or as jobs."""
    done, left = part(cells, place)
    if not left:
        return {}
    bar = Progress([*done, *left], done, place)
    try:
        if LAUNCHER.value == "slurm":
            parameters = parse_parameters(SLURM.value)
            return run_jobs(left, place, bar, Jobs("slurm", JOBS.value, parameters))
        how = jobs_here(place.scale)
        return run_jobs(left, place, bar, how) if how.at_once > 1 else run_here(left, place, bar)
    finally:
        bar.close()


if __name__ == "__main__":
    cli.run(main)
