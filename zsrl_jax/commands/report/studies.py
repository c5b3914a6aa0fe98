"""The charts and tables of each study."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from zsrl_jax.commands import usage_of
from zsrl_jax.commands.report import charts, lines, measures, single, tables
from zsrl_jax.commands.report.figures import Chart
from zsrl_jax.commands.report.load import Loaded, Row
from zsrl_jax.commands.report.tables import Entry, Table, spread_entry


class Section(NamedTuple):
    """A study on the page."""

    study: Loaded
    charts: list[Chart]
    tables: list[Table]
    films: tuple[Path, ...] = ()
    told = usage_of("video", str(shown[0].folder))
    notes: tuple[str, ...] = () if films else (f"No film yet: {told}",)
    if len(rows) > len(shown):
        notes += (f"{len(rows)} runs: the first {len(shown)} are shown in full.",)
    return [Section(study, drawn, [*tables.by_task(study), *tabled], films, notes)]


def all_runs(sections: list[Section], runs: list[Row]) -> list[Row]:
    """Return every run once: scored ones, and those that a study measures in other ways."""
    known = {row.folder.resolve(): row for row in runs}
    for section in sections:
        known |= {row.folder.resolve(): row for row in section.study.rows if row.results}
    return [known[folder] for folder in sorted(known)]
