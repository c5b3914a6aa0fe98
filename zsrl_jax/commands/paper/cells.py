"""Cells of a study as runs: their config, folder, command, and which encoder they share.

A cell's folder is named by its differences from the scale's defaults, so that the same cell of two
studies is one run. Encoders have run folders of their own, and a cell starts from a copy of its
encoder's. The saves carry the settings they were made with, and a run with other settings refuses
them. Seeds of one run share its data, so seeds with collections of their own are several cells, one
per collection, which a report reads as one.
"""

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from zsrl_jax.commands import program
from zsrl_jax.commands.paper.studies import STUDIES, Study
from zsrl_jax.commands.report.load import read_results
from zsrl_jax.errors import ConfigError
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.settings.cells import oracle_config
from zsrl_jax.settings.fields import with_defaults
from zsrl_jax.settings.scales import STUDY_SIZES, StudySize
from zsrl_jax.training.data_source import given_path

Fields = tuple[tuple[str, Any], ...]
ENDS = {"btd": 0.0, "uniform": 1.0}  # alpha at which `mix` equals this sampler


class Place(NamedTuple):
    """Where and at which scale a study is run."""

    out: Path
    scale: str
    size: StudySize | None = None  # narrowed by flags; None: the study's own
    fields: Fields = ()  # set in every cell by flags

    @property
    def root(self) -> Path:
        """Return the folder of this scale; each scale has its own."""
        return self.out / self.scale


class Cell(NamedTuple):
    """One run of a study: what it is, and the fields that differ from its scale's defaults."""

    kind: str  # encoder, score, dilution, task_space, oracle
    domain: str
    encoder: str
    sampler: str
    seeds: int
    fields: Fields = ()
    options: Fields = ()
    collection: int | None = None  # its number, if seeds have several; None: all have the config's

    def config(self, place: Place) -> ConfigDict:
        """Return the cell's config."""
        config = _default(self, place)
        _assign(config, self._own(place))
        return config

    def _own(self, place: Place) -> Fields:
        """Return the cell's own fields; collection c has the seeds after those of c - 1."""
        own = (("seeds", self.seeds), *self.fields)
        if self.collection is None:
            return own
        base = _default(self, place)
        seed = base.seed + self.collection * self.seeds
        return *own, ("seed", seed), ("data.seed", base.data.seed + self.collection)

    @property
    def name(self) -> str:
        """Name the cell by what it is."""
        marks = [f"{path.split('.')[-1]}{_brief(value)}" for path, value in self.fields]
        marks += [] if self.collection is None else [f"collection{self.collection}"]
        stem = f"{self.domain}_{self.encoder}"
        stem += "" if self.kind == "encoder" else f"_{self.sampler}"
        return "-".join([stem, *marks, f"seeds{self.seeds}"]).lower()

    def folder(self, place: Place) -> Path:
        """Return the cell's run folder."""
        kind = {"encoder": "encoders", "score": "runs", "oracle": "runs"}.get(self.kind, self.kind)
        return place.root / kind / self.name

    def encoder_cell(self) -> "Cell | None":
        """Return the cell that trains this cell's encoder, or None if it shares none."""
        if self.kind in ("encoder", "oracle"):
            return None
        fields = tuple(f for f in self.fields if f[0].startswith("encoder."))
        shared = Cell("encoder", self.domain, self.encoder, "uniform", self.seeds, fields)
        return shared._replace(collection=self.collection)

    def command(self, place: Place) -> list[str]:
        """Return the command that runs this cell, or its study if the cell is not a run."""
        if self.kind in STUDIES:
            return _study_command(self, place)
        file = f"configs/cell.py:{self.domain},{self.encoder},{self.sampler},{place.scale}"
        if self.kind == "oracle":
            file = f"configs/oracle.py:{self.domain},all,{place.scale}"
        fields = dict(_shared(self, place)) | dict(self._own(place))
        flags = [f"--config.{path}={value}" for path, value in fields.items()]
        call = [*program("run"), f"--config={file}", *flags]
        return [*call, f"--workdir={self.folder(place)}"]

    def is_done(self, place: Place) -> bool:
        """Tell whether the cell has results of exactly this config."""
        results = read_results(self.folder(place))
        if results is None:
            return False
        stored = json.loads(with_defaults(results["config"]).to_json_best_effort())
        return stored == json.loads(self.config(place).to_json_best_effort())


def _brief(value: Any) -> str:
    """Return a value as part of a folder's name."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _study_command(cell: Cell, place: Place) -> list[str]:
    """Return the command of a study, narrowed to a cell's domain and encoder."""
    flags = [f"--scale={place.scale}", f"--out={place.out}", f"--domains={cell.domain}"]
    size = size_of(STUDIES[cell.kind], place)
    flags += [f"--encoders={cell.encoder}", f"--seeds={size['seeds']}"]
    if cell.collection is not None:
        flags.append(f"--collections={size['seeds'] // cell.seeds}")
    flags += [f"--set={path}={value}" for path, value in place.fields]
    return [*program("paper"), cell.kind, *flags]


def _default(cell: Cell, place: Place) -> ConfigDict:
    """Return a cell's config without its own fields: the scale's, the studies', and the flags'."""
    if cell.kind == "oracle":
        config = oracle_config(cell.domain, (), place.scale)
    else:
        config = get_cell(cell.domain, cell.encoder, cell.sampler, place.scale)
    _assign(config, _shared(cell, place))
    return config


def _shared(cell: Cell, place: Place) -> Fields:
    """Return the fields that flags set in every cell."""
    gone = ("encoder", "tasks", "infer") if cell.kind == "oracle" else ()  # it has none of them
    return tuple(f for f in place.fields if f[0].split(".")[0] not in gone)


def _assign(config: ConfigDict, fields: Fields) -> None:
    for path, value in fields:
        try:
            config.update_from_flattened_dict({path: value})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"config field {path}={value}: {' '.join(str(error).split())}"
            ) from error


def field_of(config: ConfigDict, path: str) -> Any:
    """Return the value of a field by its path."""
    value: Any = config
    for part in path.split("."):
        value = value[part]
    return value


def size_of(study: Study, place: Place) -> dict[str, Any]:
    """Return domains, encoders, seeds, collections and samplers of a study, narrowed by flags."""
    size = STUDY_SIZES[place.scale]._asdict() | {"samplers": study.samplers}
    size |= study.sizes.get(place.scale, {})
    asked = place.size._asdict() if place.size else {}
    return size | {name: value for name, value in asked.items() if value}


def cells_of(name: str, place: Place) -> list[Cell]:
    """Return all cells of a study, without the encoders they share."""
    study = STUDIES[name]
    size = size_of(study, place)
    options = tuple(study.options.get(place.scale, {}).items())
    found = []
    for domain in size["domains"]:
        cells = []
        for encoder in size["encoders"]:
            for sampler in size["samplers"]:
                for fields in _fields(study, place.scale):
                    cell = Cell(study.kind, domain, encoder, sampler, size["seeds"], (), options)
                    cell = cell._replace(fields=_deviating(cell, place, fields))
                    cells.append(_plain(cell, place))
        if study.oracle:
            cells.append(Cell("oracle", domain, "oracle", "all", size["seeds"]))
        cells = list(dict.fromkeys(cells))  # a variant may be the preset itself
        found += _spread(cells, size["collections"], place)
    return found


def _spread(cells: list[Cell], collections: int, place: Place) -> list[Cell]:
    """Spread the seeds of a domain's cells over collections; all cells of the first come first."""
    seeds, data = cells[0].seeds, given_path(cells[0].config(place), quiet=True)
    asked = place.size.collections if place.size else 0
    if data is not None and asked > 1:
        raise ConfigError(
            f"--collections={asked}: the data is given ('{data}'), so there is one collection; "
            "leave the flag out, or collect: --set=data.source=collect"
        )
    count = 1 if data is not None else collections or seeds
    if seeds % count:
        raise ConfigError(
            f"--collections={count} with {seeds} seeds: expected as many seeds for each "
            f"collection, such as --seeds={count * (seeds // count + 1)}"
        )
    if count == 1:
        return cells
    each = seeds // count
    return [cell._replace(seeds=each, collection=c) for c in range(count) for cell in cells]


def _fields(study: Study, scale: str) -> list[Fields]:
    values = study.values.get(scale, (None,))
    along = [((study.axis, value),) if study.axis else () for value in values]
    common = tuple(study.fields.get(scale, {}).items())
    return [(*common, *variant.items(), *point) for variant in study.variants for point in along]


def _deviating(cell: Cell, place: Place, fields: Fields) -> Fields:
    """Return the fields that differ from the default; limit components to the points."""
    default = _default(cell, place)
    found = tuple((path, value) for path, value in fields if field_of(default, path) != value)
    points = dict(found).get("tasks.num_subtrajectories")
    if points is not None and points < default.tasks.num_components:
        found += (("tasks.num_components", points),)
    return found


def _plain(cell: Cell, place: Place) -> Cell:
    """Return a cell of `mix` at an end of alpha as the sampler it equals: it is the same run."""
    if cell.sampler != "mix":
        return cell
    sampler = {alpha: name for name, alpha in ENDS.items()}.get(cell.config(place).tasks.alpha)
    fields = tuple(f for f in cell.fields if f[0] != "tasks.alpha")
    return cell._replace(sampler=sampler, fields=fields) if sampler else cell


def parse_fields(pairs: list[str]) -> Fields:
    """Read field=value pairs; a value is a number, true, false, or a word."""
    found = []
    for pair in pairs:
        path, sign, text = pair.partition("=")
        if not (path and sign and text):
            raise ConfigError(f"--set={pair}: expected field=value, such as policy.updates=5000")
        try:
            found.append((path, json.loads(text.lower())))
        except ValueError:
            found.append((path, text))
    return tuple(found)


def quoted(command: list[str]) -> str:
    """Return a command as typed in a shell."""
    return shlex.join(command)
