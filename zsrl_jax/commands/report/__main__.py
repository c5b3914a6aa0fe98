"""Build the report of finished runs: python -m experiments.report RUNS... --out report/

RUNS are folders: of studies (runs/paper), of runs, or single runs.
It writes one self-contained HTML page, the same as Markdown, and the figures as PNG and PDF.
--curves adds the chart of score against updates, for all runs that were scored during training.
"""

from pathlib import Path

from absl import flags

from zsrl_jax.commands import cli, usage_of
from zsrl_jax.commands.report import curves, figures, markdown, page
from zsrl_jax.commands.report.load import load_runs, load_studies
from zsrl_jax.commands.report.studies import all_runs, in_order, loose_runs, make_section
from zsrl_jax.errors import ConfigError, DataError
from zsrl_jax.files.atomic import write_text

OUT = flags.DEFINE_string("out", "report", "folder of the report")
CURVES = flags.DEFINE_bool("curves", False, "chart score against updates")
TITLE = flags.DEFINE_string("title", "zsrl_jax: studies and runs", "title of the page")


def main(argv) -> None:
    """Read what is on disk, draw it, and write the pages."""
    roots, out = [Path(arg) for arg in argv[1:]], Path(OUT.value)
    if not roots:
        raise ConfigError(f"no folder of runs: expected {usage_of('report', 'RUNS...')}")
    for root in roots:
        if not root.is_dir():
            raise DataError(f"folder '{root}' does not exist: expected a folder with runs")
    studies = in_order(load_studies(*roots))
    runs = list({row.folder.resolve(): row for root in roots for row in load_runs(root)}.values())
    extra = [curves.draw(roots)] if CURVES.value else []
    if not (studies or runs or extra):
        told = ", ".join(f"'{root}'" for root in roots)
        raise DataError(f"no study and no finished run in {told}: expected folders with either")
    sections = [make_section(study) for study in studies]
    sections += loose_runs(sections, runs)
    runs = all_runs(sections, runs)
    charts = [chart for section in sections for chart in section.charts] + extra
    for chart in charts:
        figures.save(chart, out / "figures")
    out.mkdir(parents=True, exist_ok=True)
    for name, make in (("index.html", page.make_html), ("report.md", markdown.make_markdown)):
        write_text(out / name, make(TITLE.value, sections, extra, runs, out))
    figures.close(charts)
    missing = len({row.folder for study in studies for row in study.missing()})
    print(f"report: {out / 'index.html'} ({len(studies)} studies, {len(runs)} runs, "
          f"{len(charts)} figures, {missing} cells missing)")  # fmt: skip


if __name__ == "__main__":
    cli.run(main)
