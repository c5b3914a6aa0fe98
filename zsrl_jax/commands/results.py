"""Keep studies as small files and make their page: python -m experiments.results [RUNS ...]

RUNS are folders of studies (runs/paper): what is new in them is written to --folder/studies. From
all that is kept there: the page studies.md, its figures, and the README's figure and sentences.
"""

import os
from pathlib import Path

from absl import flags

from zsrl_jax.commands import cli, usage_of
from zsrl_jax.commands.report import figures, published
from zsrl_jax.commands.report.kept import keep, load_kept
from zsrl_jax.commands.report.load import load_studies
from zsrl_jax.commands.report.studies import in_order
from zsrl_jax.errors import DataError

FOLDER = flags.DEFINE_string("folder", "docs/results", "where studies are kept, and their page")
PICTURES = flags.DEFINE_string("pictures", "docs/figures", "folder of the page's figures")
README = flags.DEFINE_string("readme", "README.md", "file whose block is made anew; '': none")


def main(argv: list[str]) -> None:
    """Keep what is given, then draw all that is kept."""
    roots, folder = [Path(arg) for arg in argv[1:]], Path(FOLDER.value)
    for root in roots:
        if not root.is_dir():
            raise DataError(f"folder '{root}' does not exist: expected a folder with studies")
    found = load_studies(*roots)
    if roots and not found:
        told = ", ".join(f"'{root}'" for root in roots)
        raise DataError(f"no study in {told}: expected folders that `paper` wrote")
    for study in found:
        print(f"kept: {keep(study, folder / 'studies')}")
    studies = in_order(load_kept(folder / "studies"))
    if not studies:
        usage = usage_of("results", "RUNS...")
        raise DataError(f"no study is kept in '{folder / 'studies'}': expected {usage}")
    page, pictures = folder / "studies.md", Path(PICTURES.value)
    peers = published.read_peer(folder / "studies")
    sections = published.make_page(studies, peers, page, pictures)
    main_study = next((study for study in studies if study.name == "main"), None)
    if README.value and main_study:
        readme = Path(README.value)
        names = (pictures / "studies_main.png", page)
        published.update_readme(
            readme, main_study, *(os.path.relpath(name, readme.parent) for name in names)
        )
    figures.close([chart for section in sections for chart in section.charts])
    missing = sum(len(study.missing()) for study in studies)
    print(f"results: {page} ({len(studies)} studies, {missing} runs missing)")


if __name__ == "__main__":
    cli.run(main)
