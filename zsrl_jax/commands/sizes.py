"""What a run needs of a device: python -m experiments.doctor --config=cheetah_fb_btd:paper

It compiles the programs of the run, with one seed and with all, and prints their memory against
usual devices, and the hours that the updates take there. Nothing is trained, and no data is read.
"""

from collections.abc import Iterator

import jax
from absl import flags
from ml_collections import ConfigDict, config_flags

from zsrl_jax.commands import cli
from zsrl_jax.devices import compile_cache, peaks, precision
from zsrl_jax.settings import checks
from zsrl_jax.settings.names import cell_name
from zsrl_jax.training import memory
from zsrl_jax.training.blueprint import Program, programs, shape_of
from zsrl_jax.training.memory import GB, TAKEN, Need

MEMORIES = (16, 24, 40, 80)  # GB of usual devices
FLAGS = flags.FlagValues()
CONFIG = config_flags.DEFINE_config_file("config", flag_values=FLAGS, lock_config=True)


def needs(config: ConfigDict, seeds: int) -> Iterator[tuple[Program, Need]]:
    """Compile the programs of a run with so many seeds, as an accelerator has them."""
    config = config.copy_and_resolve_references().unlock()
    config.policy.feature_gib *= seeds / config.seeds  # stored or not, as with all seeds
    config.seeds = seeds
    backend = jax.default_backend()
    with precision.traced_for("gpu" if backend == "cpu" else backend):
        for program in programs(config, shape_of(config)):
            yield program, memory.by_compiler(program)


def head() -> str:
    """Return the first line of the table."""
    names = "arguments", "temporary", "results", "reused", "in all"
    columns = [f"{name:>10}" for name in names] + [f"{f'{size} GB':>8}" for size in MEMORIES]
    return f"{'':<20}{''.join(columns)}"


def row(need: Need, seeds: int) -> str:
    """Return a line of the table: the gigabytes of a program, and where it fits."""
    parts = need.arguments, need.temporaries, need.results, need.reused, need.total
    fits = ["fits" if need.total <= TAKEN * size * GB else "-" for size in MEMORIES]
    name = f"{need.name}, {seeds} seed" + ("s" if seeds > 1 else "")
    cells = [f"{part / GB:>10.2f}" for part in parts] + [f"{word:>8}" for word in fits]
    return f"{name:<20}{''.join(cells)}"


def changes(found: list[tuple[Program, Need]]) -> list[str]:
    """Return a line for each memory that is too small: what to change."""
    program, most = max(found, key=lambda pair: pair[1].total)
    return [f"{size} GB: {memory.told(most, program, TAKEN * size * GB)}"
            for size in MEMORIES if most.total > TAKEN * size * GB]  # fmt: skip


def estimate(config: ConfigDict, rows: list[Need]) -> list[str]:
    """Return the lines of estimated hours of all updates, by device."""
    work = {need.name: need.flops * config[need.name].updates
            for need in rows if need.name in config and "updates" in config[need.name]}  # fmt: skip
    lines = []
    for name in peaks.PEAKS:
        each = {stage: peaks.hours(flops, name, config.precision) for stage, flops in work.items()}
        parts = ", ".join(f"{stage} {value:.1f}" for stage, value in each.items())
        lines.append(f"hours on one {name}, {config.precision}: {sum(each.values()):.1f} ({parts})")
    return lines


def tell(config: ConfigDict) -> None:
    """Print the table and the hours."""
    shape, backend = shape_of(config), jax.default_backend()
    source = f"the compiler for {backend}" + (", an estimate" if backend == "cpu" else "")
    print(f"{cell_name(config)}, {config.scale} scale: at most {shape.episodes} episodes of "
          f"{shape.steps} steps; GB by {source}", flush=True)  # fmt: skip
    compile_cache.keep()
    print(head(), flush=True)
    for seeds in sorted({1, config.seeds}):
        found = []
        for program, need in needs(config, seeds):
            found.append((program, need))
            print(row(need, seeds), flush=True)
    print(f"fits: in {TAKEN:.0%} of the memory, which is what JAX takes of a GPU by default")
    print("\n".join([*changes(found), *estimate(config, [need for _, need in found])]))
    print(f"hours: flops / (the maker's peak x {peaks.SHARE}); that share is a guess")


def main(argv: list[str]) -> None:
    """Read the config from the flags, and print."""
    cli.refuse_arguments(cli.parse(argv, FLAGS))
    config = cli.read_config(CONFIG)
    checks.check(config)
    tell(config)
