"""The report as Markdown beside its figures, and one study's figures and tables by themselves."""

from collections.abc import Sequence
from pathlib import Path

from zsrl_jax.commands.report import figures
from zsrl_jax.commands.report.figures import Chart
from zsrl_jax.commands.report.load import Row, load_study, stamp
from zsrl_jax.commands.report.page import relative
from zsrl_jax.commands.report.studies import Section, make_section
from zsrl_jax.files.atomic import write_text


def make_markdown(title: str, sections: Sequence[Section], extra: Sequence[Chart],
                  runs: Sequence[Row], out: Path) -> str:  # fmt: skip
    """Return the report; figures are the PNG files beside it."""
    lines = [f"# {title}", "", stamp(list(runs)), ""]
    for section in sections:
        lines += _section(section, "figures/")
    for chart in extra:
        lines += ["## Learning curves", "", *_picture(chart, "figures/")]
    lines += ["## Runs", "", "| folder | command |", "|---|---|"]
    lines += [f"| {relative(row.folder, out)} | `{row.command}` |" for row in runs]
    return "\n".join(lines) + "\n"


def write_study(file: Path, folder: Path) -> tuple[Section, list[Path]]:
    """Draw one study into a folder: its figures, and a page NAME.md with them and its tables."""
    section = make_section(load_study(file))
    files = [path for chart in section.charts for path in figures.save(chart, folder)]
    figures.close(section.charts)
    page = folder / f"{section.study.name}.md"
    write_text(page, "\n".join(_section(section, "")))
    return section, [*files, page]


def _section(section: Section, folder: str) -> list[str]:
    study, lost = section.study, section.study.missing()
    lines = [f"## {study.name} ({study.scale} scale)", "", f"{study.title}.", ""]
    if lost:
        lines += [f"{len(lost)} of {len(study.rows)} cells are missing:", ""]
        lines += [f"- {row.folder.name}: `{row.command}`" for row in lost] + [""]
    for chart in section.charts:
        lines += _picture(chart, folder)
    for table in section.tables:
        lines += [f"### {table.title}", "", "| " + " | ".join(table.head) + " |",
                  "|" + "---|" * len(table.head)]  # fmt: skip
        lines += ["| " + " | ".join(e.text for e in row) + " |" for row in table.body] + [""]
    return lines


def _picture(chart: Chart, folder: str) -> list[str]:
    note = f"{chart.caption} ({stamp(chart.rows)})"
    return [f"![{chart.caption}]({folder}{chart.name}.png)", "", f"*{note}*", ""]
