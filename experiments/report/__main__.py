"""Build the report of finished runs: python -m experiments.report RUNS --out report/

One HTML page that needs nothing but itself, the same as Markdown, and the figures as PNG and PDF.
With --curves: also the chart of score against updates, of all runs scored while they trained.
"""

from pathlib import Path

from absl import flags

from experiments import cli
from experiments.report import curves, figures, page
from experiments.report.load import load_runs, load_studies
from experiments.report.studies import all_runs, make_section
from zsrl_jax.checkpoint import write_text
from zsrl_jax.errors import ConfigError, DataError

OUT = flags.DEFINE_string("out", "report", "where the report goes")
CURVES = flags.DEFINE_bool("curves", False, "chart score against updates")
TITLE = flags.DEFINE_string("title", "zsrl_jax: studies and runs", "of the page")


def main(argv) -> None:
    """Read what is on disk, draw it, and write the pages."""
    if len(argv) != 2:
        raise ConfigError(f"expected one folder of runs, got {len(argv) - 1}")
    root, out = Path(argv[1]), Path(OUT.value)
    if not root.is_dir():
        raise DataError(f"folder '{root}' does not exist: expected a folder with runs")
    studies, runs = load_studies(root), load_runs(root)
    extra = [curves.draw(root)] if CURVES.value else []
    if not (studies or runs or extra):
        raise DataError(f"'{root}' holds neither a study nor a finished run")
    sections = [make_section(study) for study in studies]
    runs = all_runs(sections, runs)
    charts = [chart for section in sections for chart in section.charts] + extra
    for chart in charts:
        figures.save(chart, out / "figures")
    out.mkdir(parents=True, exist_ok=True)
    for name, make in (("index.html", page.make_html), ("report.md", page.make_markdown)):
        write_text(out / name, make(TITLE.value, sections, extra, runs, out))
    figures.close(charts)
    missing = sum(len(study.missing()) for study in studies)
    print(f"report: {out / 'index.html'} ({len(studies)} studies, {len(runs)} runs, "
          f"{len(charts)} figures, {missing} cells missing)")  # fmt: skip


if __name__ == "__main__":
    cli.run(main)
