"""A study's cells on disk: NAME.study.json, from which a report knows what is missing."""

import json
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from zsrl_jax.commands import program, usage_of
from zsrl_jax.commands.paper.cells import ENDS, Cell, Place, field_of, quoted
from zsrl_jax.commands.paper.launch import waves
from zsrl_jax.commands.paper.studies import PUBLISHED, STUDIES, Study
from zsrl_jax.commands.paper.times import as_time, seconds_of, updates_of
from zsrl_jax.commands.report.load import read_results
from zsrl_jax.errors import ConfigError, TaskError, unknown
from zsrl_jax.files.atomic import write_text
from zsrl_jax.runs.identity import differing, facts
from zsrl_jax.runs.identity import tell as told
from zsrl_jax.runs.provenance import FILE as RUN
from zsrl_jax.settings.fields import with_defaults

HOW = ("out", "jobs", "launcher", "slurm")  # flags that change no cell


def again(name: str, words: list[str], scale: str) -> str:
    """Return the command that makes a study, without where and how its cells are run."""
    kept, taken = list(program("paper")), False
    for word in words:
        flag, sign, _ = word.lstrip("-").partition("=")
        if taken or (word.startswith("-") and flag in HOW):
            taken = not (taken or sign)  # the next word is the flag's value
        else:
            kept.append(name if word == "all" else word)
    named = any(word.lstrip("-").partition("=")[0] == "scale" for word in kept)
    return quoted(kept if named else [*kept, f"--scale={scale}"])


def study_names(args: list[str]) -> list[str]:
    """Return the studies that were asked for."""
    if len(args) != 1:
        raise ConfigError(
            f"expected one study, got {len(args)}: {usage_of('paper', 'NAME')}, "
            f"with NAME of {', '.join(STUDIES)}, all"
        )
    if args[0] != "all" and args[0] not in STUDIES:
        raise TaskError(unknown("study", args[0], [*STUDIES, "all"]))
    return list(STUDIES) if args[0] == "all" else args


def narrow(
    plans: dict[str, list[Cell]], samplers: list[str], oracle: bool
) -> dict[str, list[Cell]]:
    """Leave out cells of other samplers than those named (none: all), and oracles if asked."""
    every = [cell for cells in plans.values() for cell in cells if cell.kind != "oracle"]
    known = dict.fromkeys(cell.sampler for cell in every)
    for name in samplers:
        if name not in known:
            raise TaskError(unknown("sampler of this study", name, known))
    wanted = samplers or list(known)
    return {
        study: [c for c in cells if (oracle if c.kind == "oracle" else c.sampler in wanted)]
        for study, cells in plans.items()
    }


def check_folders(cells: list[Cell], place: Place) -> None:
    """Refuse a folder whose runs have other settings, before anything in it is changed."""
    for cell in cells:
        known = read_results(cell.folder(place)) or read_results(cell.folder(place), RUN)
        if known is None:
            continue
        found = differing(_decisive(with_defaults(known["config"]), cell),
                          _decisive(cell.config(place), cell))  # fmt: skip
        if found:
            raise ConfigError(
                f"'{cell.folder(place)}' holds a run with other settings: {told(found)}; name "
                "another --out for these"
            )


def _decisive(config: ConfigDict, cell: Cell) -> dict[str, Any]:
    """Return the settings that decide a cell's results, including its encoder's updates."""
    stage = {"score": "policy", "oracle": "policy"}.get(cell.kind, "encoder")
    return facts(config, stage, "") | {f"{stage}.updates": config[stage].updates}


def write_plan(name: str, cells: list[Cell], place: Place, command: str = "") -> Path:
    """Write a study's cells: what each is, where its results will be, and its command.

    `command` is the one that plans them; those of earlier, other plans are kept beside it.
    """
    study = STUDIES[name]
    file = place.root / f"{name}.study.json"
    earlier = _earlier(file)
    rows = _with_earlier([_row(cell, study, place) for cell in cells], earlier.get("cells", []))
    commands = [*earlier.get("commands", []), *([command] if command else [])]
    plan: dict[str, Any] = {"name": name, "title": study.title, "axis": study.axis}
    plan |= {
        "scale": place.scale,
        "commands": list(dict.fromkeys(commands)),
        "cells": rows,
        "published": PUBLISHED if name == "samplers" else {},
    }
    place.root.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps(plan, indent=1))
    return file


def _row(cell: Cell, study: Study, place: Place) -> dict[str, Any]:
    """Return a cell as the report reads it; results of another config do not count."""
    config = cell.config(place)
    varied = () if cell.kind == "oracle" else study.variants[0]
    fields = dict(cell.fields) | {path: field_of(config, path) for path in varied}
    fields = json.loads(json.dumps(fields))  # as they are read again: a tuple is a list
    mixed = study.samplers == ("mix",) and cell.sampler in ENDS
    return {
        "kind": cell.kind,
        "domain": cell.domain,
        "encoder": cell.encoder,
        "sampler": "mix" if mixed else cell.sampler,
        "seeds": cell.seeds,
        "collection": cell.collection,
        "fields": fields,
        "value": ENDS[cell.sampler] if mixed else _value(cell, config, study.axis),
        "folder": str(cell.folder(place).relative_to(place.root)),
        "command": quoted(cell.command(place)),
        "config": json.loads(config.to_json_best_effort()),
    }


def _value(cell: Cell, config: ConfigDict, axis: str) -> float | None:
    """Return a cell's value on the study's axis."""
    return field_of(config, axis) if axis and cell.kind != "oracle" else None


def _earlier(file: Path) -> dict[str, Any]:
    """Return the plan that is there; nothing if there is none or it was cut off."""
    try:
        return dict(json.loads(file.read_text())) if file.exists() else {}
    except ValueError:
        return {}


def _with_earlier(
    rows: list[dict[str, Any]], earlier: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Add the cells that an earlier, wider command planned: a narrower one removes none."""

    def mark(row):
        return [row[name] for name in ("kind", "domain", "encoder", "sampler", "value", "fields")]

    known = [mark(row) for row in rows]
    return rows + [row for row in earlier if mark(row) not in known]


def tell(plans: dict[str, list[Cell]], place: Place) -> str:
    """Return what studies would run: a line per study, then every cell with its time."""
    head = f"{'study':<18}{'cells':>7}{'encoders':>10}{'done':>6}{'encoder updates':>18}"
    lines = [head + f"{'policy updates':>17}{'time left':>16}"]
    every = {**plans, "together": [cell for cells in plans.values() for cell in cells]}
    for name, cells in every.items() if len(plans) > 1 else plans.items():
        encoders, rest = waves(cells)
        both = [*encoders, *rest]
        done = [cell for cell in both if cell.is_done(place)]
        left = sum(seconds_of(cell, place)[0] for cell in both if cell not in done)
        updates = [
            sum(updates_of(c, place, stage) for c in both) for stage in ("encoder", "policy")
        ]
        line = f"{name:<18}{len(rest):>7}{len(encoders):>10}{len(done):>6}"
        lines.append(f"{line}{updates[0]:>18,}{updates[1]:>17,}{as_time(left):>16}")
    lines += ["", "times are of two cores, without collecting and compiling; roughly", ""]
    encoders, rest = waves(every["together"])
    return "\n".join([*lines, *(_cell_line(cell, place) for cell in [*encoders, *rest])])


def _cell_line(cell: Cell, place: Place) -> str:
    """Return a cell's kind, name, time, and whether it is done."""
    seconds, measured = seconds_of(cell, place)
    told = f"done in {as_time(seconds)}" if measured else f"about {as_time(seconds)}"
    return f"  {cell.kind:<11}{cell.name:<52} {told}"
