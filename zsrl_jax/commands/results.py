"""Keep studies as small files and make their page: python -m experiments.results [RUNS ...]

RUNS are folders of studies (runs/paper): what is new in them is written to --folder/studies. From
all that is kept there: the page studies.md, its figures, and the README's figure and sentences.
Studies at smoke scale, and those that measure no scores, are not kept.
"""

import os
from pathlib import Path

from absl import flags

from zsrl_jax.commands import cli, usage_of
from zsrl_jax.commands.report import figures, peer, published
from zsrl_jax.commands.report.kept import keep, load_kept
from zsrl_jax.commands.report.load import load_studies
from zsrl_jax.commands.report.studies import in_order
from zsrl_jax.errors import DataError

FOLDER = flags.DEFINE_string("folder", "docs/results", "where studies are kept, and their page")
PICTURES = flags.DEFINE_string("pictures", "docs/figures", "folder of the page's figures")
README = flags.DEFINE_string(
    "readme", "", "README whose part between the marks is rewritten; default: README.md if it has "
    "marks"
)  # fmt: skip


def main(argv: list[str]) -> None:
    """Keep what is given, then draw all that is kept."""
    roots, folder = [Path(arg) for arg in argv[1:]], Path(FOLDER.value)
    for root in roots:
        if not root.is_dir():
            raise DataError(f"folder '{root}' does not exist: expected a folder with studies")
    readme = _readme()
    found = load_studies(*roots)
    if roots and not found:
        told = ", ".join(f"'{root}'" for root in roots)
        raise DataError(f"no study in {told}: expected folders that `paper` wrote")
    for file in keep(found, folder / "studies"):
        print(f"kept: {file}")
    studies = in_order(load_kept(folder / "studies"))
    if not studies:
        usage = usage_of("results", "RUNS...")
        raise DataError(f"no study is kept in '{folder / 'studies'}': expected {usage}")
    page, pictures = folder / "studies.md", Path(PICTURES.value)
    peers = peer.read_peer(folder / "studies")
    sections = published.make_page(studies, peers, page, pictures)
    shown = published.main_of(studies)
    if readme and shown:
        section = next(section for section in sections if section.study is shown)
        names = (pictures / f"{section.charts[0].name}.png", page)
        published.update_readme(
            readme, shown, *(os.path.relpath(name, readme.parent) for name in names)
        )
    figures.close([chart for section in sections for chart in section.charts])
    missing = sum(len(study.missing()) for study in studies)
    print(f"results: {page} ({len(studies)} studies, {missing} runs missing)")


def _readme() -> Path | None:
    """Return the README to rewrite, if there is one with marks; refuse one that lacks them."""
    readme = Path(README.value or "README.md")
    if not readme.is_file():
        if README.value:
            raise DataError(f"README '{readme}' does not exist: expected a file with marks")
        return None
    text = readme.read_text()
    if README.value or published.BEGIN in text:
        published.block_of(text, readme)
        return readme
    return None


if __name__ == "__main__":
    cli.run(main)
