"""The report as Markdown beside its figures, and one study's figures and tables by themselves."""

import html
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from zsrl_jax.commands.report import figures
from zsrl_jax.commands.report.figures import Chart
from zsrl_jax.commands.report.load import Loaded, Row, load_study
from zsrl_jax.commands.report.page import relative
from zsrl_jax.commands.report.stamps import stamp
from zsrl_jax.commands.report.studies import Section, make_section
from zsrl_jax.files.atomic import write_text

SPECIAL = re.compile(r"([\\`*_{}\[\]|#])")


def make_markdown(title: str, sections: Sequence[Section], extra: Sequence[Chart],
                  runs: Sequence[Row], out: Path) -> str:  # fmt: skip
    """Return the report; figures are the PNG files beside it."""
    lines = [f"# {escape(title)}", "", escape(stamp(list(runs))), ""]
    for section in sections:
        lines += section_lines(section, "figures/", out)
    for chart in extra:
        lines += ["## Learning curves", "", *_picture(chart, "figures/")]
    lines += ["## Runs", "", "| folder | command |", "|---|---|"]
    lines += [f"| {escape(relative(row.folder, out))} | {code(row.command)} |" for row in runs]
    return "\n".join(lines) + "\n"


def write_study(file: Path, folder: Path) -> tuple[Section, list[Path]]:
    """Draw one study into a folder: its figures, and a page NAME.md with them and its tables."""
    section = make_section(load_study(file))
    files = [path for chart in section.charts for path in figures.save(chart, folder)]
    figures.close(section.charts)
    page = folder / f"{section.study.name}.md"
    write_text(page, "\n".join(section_lines(section, "", folder)))
    return section, [*files, page]


def escape(text: str) -> str:
    """Return a text whose letters Markdown shows as they are, in one line."""
    return SPECIAL.sub(r"\\\1", " ".join(html.escape(text, quote=False).split()))


def code(text: str) -> str:
    """Return a text as code, in one line, also inside of a table."""
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    room = " " if "`" in text else ""
    return f"{ticks}{room}{' '.join(text.split())}{room}{ticks}".replace("|", "\\|")


def section_lines(section: Section, folder: str, out: Path) -> list[str]:
    """Return one study: what is missing, its notes, figures, films and tables."""
    study = section.study
    lines = [f"## {study.name} ({escape(study.scale)} scale)", "", f"{escape(study.title)}.", ""]
    lines += _missing(study)
    for note in section.notes:
        lines += [escape(note), ""]
    for chart in section.charts:
        lines += _picture(chart, folder)
    for film in section.films:
        lines += [f"[film: {escape(film.name)}]({quote(relative(film, out))})", ""]
    for table in section.tables:
        lines += [f"### {escape(table.title)}", "", _line(table.head),
                  "|" + "---|" * len(table.head)]  # fmt: skip
        lines += [_line([entry.text for entry in row]) for row in table.body] + [""]
    return lines


def _missing(study: Loaded) -> list[str]:
    """Return what is missing of a study, with the commands that make it."""
    lost = study.missing()
    if not lost:
        return []
    if lost[0].command:
        lines = [f"{len(lost)} of {len(study.runs())} cells are missing:", ""]
        return lines + [f"- {escape(row.folder.name)}: {code(row.command)}" for row in lost] + [""]
    lines = [f"{len(lost)} of {len(study.runs())} runs are missing. These commands make the study "
             "(in a folder without its runs, all of it):", ""]  # fmt: skip
    return [*lines, *(f"    {command}" for command in study.commands), ""]


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(escape, texts)) + " |"


def _picture(chart: Chart, folder: str) -> list[str]:
    caption, name = escape(chart.caption), f"{folder}{chart.name}.png"
    note = f"{caption} ({escape(stamp(chart.rows))})"
    return [f"![{caption}]({quote(name)})", "", f"*{note}*", ""]
