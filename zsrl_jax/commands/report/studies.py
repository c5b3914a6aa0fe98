"""The charts and tables of each study."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from zsrl_jax.commands import usage_of
from zsrl_jax.commands.report import charts, comparisons, lines, measures, single, tables
from zsrl_jax.commands.report.figures import Chart
from zsrl_jax.commands.report.load import Loaded, Row
from zsrl_jax.commands.report.tables import Entry, Table, score_entry
from zsrl_jax.settings.scales import ENCODERS


class Section(NamedTuple):
    """A study on the page."""

    study: Loaded
    charts: list[Chart]
    tables: list[Table]
    films: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def sampler_table(study: Loaded) -> Table:
    """Show the samplers, with and without a centred reward, beside the paper's figures."""
    domains = study.names("domain")
    head = ["tasks from"]
    for domain in domains:
        head += [f"{domain}, centred", f"{domain}, as in the paper", f"{domain}: published (ExORL)"]
    body = []
    for sampler in study.names("sampler"):
        line = [Entry(sampler)]
        for domain in domains:
            for centred in (True, False):
                rows = [r for r in study.pick(domain=domain, sampler=sampler)
                        if r.fields.get("policy.center_reward", True) == centred]  # fmt: skip
                line += [score_entry(r) for r in rows[:1]]
            known = study.published.get(domain, {}).get(sampler)
            line.append(Entry(f"{known[0]:g} ± {known[1]:g}", known[0]) if known else Entry("none"))
        body.append(line)
    title = f"Samplers on {', '.join(study.names('encoder'))} features, with and without "
    title += "policy.center_reward; published: FB features, ExORL data"
    return Table(title, head, body)


GROUPS = {"paper": "The paper's encoders: ", "other": "Other encoders: "}


def by_group(study: Loaded) -> dict[str, Loaded]:
    """Split a study into the paper's encoders and the rest; one group if it has one kind alone."""
    known = [name in ENCODERS for name in study.names("encoder")]
    if all(known) or not any(known):
        return {"": study}
    parts: dict[str, Loaded] = {}
    for group in GROUPS:
        mine = group == "paper"
        rows = [r for r in study.rows if r.kind == "oracle" or (r.encoder in ENCODERS) == mine]
        parts[group] = study._replace(rows=rows)
    return parts


def draw_main(study: Loaded) -> Section:
    """Draw bars and profiles; make tables of tasks, wins and losses, and interquartile means.

    The paper's encoders and the rest are shown apart; comparisons are corrected over all of them.
    """
    drawn, tabled = [], list(comparisons.comparisons(study))
    for group, part in by_group(study).items():
        told, end = GROUPS.get(group, ""), f"_{group}" if group else ""
        for chart in (charts.bars(part), charts.profiles(part)):
            drawn.append(chart._replace(name=chart.name + end, caption=told + chart.caption))
        made = [comparisons.aggregate(part), *tables.by_task(part)]
        tabled += [table._replace(title=told + table.title) for table in made]
    return Section(study, drawn, tabled)


def draw_spread(study: Loaded) -> Section:
    """Draw boxes over encoders."""
    return Section(study, [charts.boxes(study)], [comparisons.aggregate(study)])


def draw_along(study: Loaded) -> Section:
    """Draw score against the study's axis; compare samplers at each point, if there are two."""
    tabled = [*comparisons.comparisons(study), *tables.by_task(study)]
    return Section(study, [lines.along(study)], tabled)


def draw_samplers(study: Loaded) -> Section:
    """Draw bars of samplers and the ablation table, for each encoder."""
    drawn = by_encoder(study, charts.sampler_bars)
    compared = [*map(sampler_table, parts_of(study)), *comparisons.comparisons(study)]
    return Section(study, drawn, [*compared, *tables.by_task(study)])


def parts_of(study: Loaded) -> list[Loaded]:
    """Return a study's cells encoder by encoder, each with the oracles."""
    return [
        study._replace(rows=[r for r in study.rows if r.encoder == name or r.kind == "oracle"])
        for name in study.names("encoder")
    ]


def by_encoder(study: Loaded, draw: Callable[[Loaded], Chart]) -> list[Chart]:
    """Draw a chart for each encoder, named by it if there are several."""
    names, drawn = study.names("encoder"), [draw(part) for part in parts_of(study)]
    if len(names) == 1:
        return drawn
    return [c._replace(name=f"{c.name}_{e}") for c, e in zip(drawn, names, strict=True)]


def draw_settings(study: Loaded) -> Section:
    """Draw bars by settings; compare samplers under each."""
    tabled = [*comparisons.comparisons(study), *tables.by_task(study)]
    return Section(study, by_encoder(study, charts.setting_bars), tabled)


def draw_dilution(study: Loaded) -> Section:
    """Draw the variance of returns against d."""
    return Section(study, [lines.dilution(study)], [measures.dilution_table(study)])


def draw_components(study: Loaded) -> Section:
    """Draw score and unseen likelihood against K."""
    return Section(study, [lines.components(study)], tables.by_task(study))


def draw_task_space(study: Loaded) -> Section:
    """Draw the space of tasks."""
    return Section(study, measures.task_space(study), [measures.overlap_table(study)])


SECTIONS: dict[str, Callable[[Loaded], Section]] = {
    "main": draw_main,
    "spread": draw_spread,
    "dimension": draw_along,
    "alpha": draw_along,
    "samplers": draw_samplers,
    "settings": draw_settings,
    "dilution": draw_dilution,
    "components": draw_components,
    "subtrajectories": draw_along,
    "task_space": draw_task_space,
}


def make_section(study: Loaded) -> Section:
    """Draw a study as it is on disk; its charts are named by its place, then by the study."""
    section = SECTIONS[study.name](study)
    named = [chart._replace(name=(Path(study.place) / chart.name).as_posix())
             for chart in section.charts]  # fmt: skip
    scored = any(row.kind == "score" and row.results for row in study.rows)
    notes = (comparisons.variance_note(study),) if scored else ()
    return section._replace(charts=named, notes=(*section.notes, *notes))


def in_order(studies: list[Loaded]) -> list[Loaded]:
    """Return studies place by place, each in the order of SECTIONS."""
    order = list(SECTIONS)
    return sorted(studies, key=lambda study: (study.place, order.index(study.name)))


def loose_runs(sections: list[Section], runs: list[Row]) -> list[Section]:
    """Return a section with the scores of runs that belong to no study, if there are any."""
    known = {row.folder.resolve() for section in sections for row in section.study.runs()}
    rows = [row for row in runs if row.folder.resolve() not in known]
    if not rows:
        return []
    scales = sorted({row.results["scale"] for row in rows if row.results})
    study = Loaded("runs", "Runs that belong to no study", ", ".join(scales), "", rows, {}, ".")
    shown = rows[: single.MOST]
    drawn = [chart for i, row in enumerate(shown) for chart in single.charts(row, f"run{i + 1}")]
    tabled = [table for row in shown for table in single.tables(row)]
    films = tuple(film for row in shown for film in single.films(row))
    notes: tuple[str, ...] = (
        () if films else (f"No film yet: {usage_of('video', str(shown[0].folder))}",)
    )
    if len(rows) > len(shown):
        notes += (f"{len(rows)} runs: the first {len(shown)} are shown in full.",)
    return [Section(study, drawn, [*tables.by_task(study), *tabled], films, notes)]


def all_runs(sections: list[Section], runs: list[Row]) -> list[Row]:
    """Return every run once: scored ones, and those that a study measures in other ways."""
    known = {row.folder.resolve(): row for row in runs}
    for section in sections:
        known |= {row.folder.resolve(): row for row in section.study.runs() if row.results}
    return [known[folder] for folder in sorted(known)]
