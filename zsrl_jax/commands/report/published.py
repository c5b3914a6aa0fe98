"""The page of the studies that are kept, the figure and the sentences of the README.

All of it is made from the small files of `kept` and the peer's lines, so that no figure is typed by
hand.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zsrl_jax.analysis import statistics as stats
from zsrl_jax.commands.report import comparisons, figures
from zsrl_jax.commands.report.comparisons import Pair
from zsrl_jax.commands.report.load import Loaded
from zsrl_jax.commands.report.markdown import section_lines
from zsrl_jax.commands.report.page import relative
from zsrl_jax.commands.report.peer import OURS, interval_words, line_of, p_words, peer_lines
from zsrl_jax.commands.report.studies import Section, make_section
from zsrl_jax.errors import DataError
from zsrl_jax.files.atomic import write_text

BEGIN, END = (
    "<!-- made by experiments.results: begin -->",
    "<!-- made by experiments.results: end -->",
)
ABOUT = """# Studies

Made by `python -m experiments.results` from the files in `docs/results/studies`; a change by hand
is lost. [What the numbers are](../experiments.md#what-the-numbers-are). A score is the return of
1000 steps, mean over a domain's tasks. Data of our own is not ExORL's, so nothing that was made
with it compares with published scores.
"""


class Against(NamedTuple):
    """A sampler beside uniform on one domain, over all encoders that have both."""

    domain: str
    pairs: list[Pair]
    outcomes: list[str]  # of each pair, corrected over the study's cells
    above: np.ndarray  # [unit] mean over encoders, above the random policy
    below: np.ndarray  # [unit] the same of uniform
    left_out: int = 0  # encoders that have fewer units


def against(study: Loaded, sampler: str) -> list[Against]:
    """Compare a sampler with uniform on each domain, over the units that its encoders have.

    An encoder with at most half as many units as another is left out.
    """
    known = [pair for pair in comparisons.pairs_of(study, sampler) if pair.units]
    corrected, _ = comparisons.corrected_of(study, sampler)
    outcomes = [
        stats.outcome(float(np.mean(pair.above - pair.below)), p)
        for pair, p in zip(known, corrected, strict=True)
    ]
    found = []
    for domain in dict.fromkeys(pair.domain for pair in known):
        own = [(pair, o) for pair, o in zip(known, outcomes, strict=True) if pair.domain == domain]
        most = max(len(pair.units) for pair, _ in own)
        whole = [(pair, o) for pair, o in own if 2 * len(pair.units) > most]
        pairs = [pair for pair, _ in whole]
        units = comparisons.common_units(pairs)
        if units:
            sides = comparisons.over_cells(pairs, units)
            left_out = len(own) - len(whole)
            found.append(Against(domain, pairs, [o for _, o in whole], *sides, left_out))
    return found


def sentence(one: Against) -> str:
    """Say in words how behavioural tasks do against uniform ones on a domain."""
    difference = one.above - one.below
    mean = stats.interval(difference)
    told = f"**{one.domain}**: {_outcomes(one)}: behavioural tasks score {abs(mean.value):.0f} "
    told += f"{'more' if mean.value >= 0 else 'less'} than uniform ones on average over "
    told += _units(one)
    if math.isfinite(mean.low):
        told += f" ({interval_words(mean)}, p {p_words(difference)})"
    gain = stats.ratio(one.above, one.below)
    if math.isfinite(gain.low):
        told += f"; above the random policy they have {gain.value:.2f} times the score "
        told += f"({gain.low:.2f} to {gain.high:.2f})"
    if one.left_out:
        told += f". {_plural(one.left_out, 'encoder')} with few seeds so far left out"
    return told + "."


def _outcomes(one: Against) -> str:
    """Say with how many encoders behavioural tasks are ahead, and what of it is significant."""
    number, tested = len(one.pairs), set(one.outcomes) != {stats.ONE_SEED}
    if number == 1:
        words = {
            stats.WIN: ", significant",
            stats.LOSS: ", significant",
            stats.OPEN: ", not significant",
        }
        return f"with {one.pairs[0].encoder}{words.get(one.outcomes[0], '')}"
    ahead = sum(np.mean(p.above - p.below) > 0 for p in one.pairs)
    told = f"ahead of uniform tasks with {ahead} of {number} encoders"
    if tested:
        told += f", significantly with {one.outcomes.count(stats.WIN)}"
    if lost := one.outcomes.count(stats.LOSS):
        told += f", significantly behind with {lost}"
    return told


def _units(one: Against) -> str:
    """Say over how many seeds, or collections of several seeds, a mean is taken."""
    row = one.pairs[0].other
    several = row is not None and len(set(row.units())) < len(row.units())
    return _plural(len(one.above), "collection" if several else "seed")


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def main_of(studies: Sequence[Loaded]) -> Loaded | None:
    """Return the study that the README speaks of: `main` at laptop scale, if it has scores."""
    found = [study for study in studies if (study.name, study.scale) == ("main", "laptop")]
    return next((study for study in found if any(row.scores.size for row in study.rows)), None)


def make_page(studies: Sequence[Loaded], peers: Sequence[dict[str, Any]], page: Path,
              pictures: Path) -> list[Section]:  # fmt: skip
    """Write the page of all studies, and their figures; return its sections."""
    sections = [_named(make_section(study)) for study in studies]
    for section in sections:
        for chart in section.charts:
            figures.save(chart, pictures, kinds=("png",))
    place = relative(pictures, page.parent) + "/"
    lines = [ABOUT]
    main = main_of(studies)
    if main:
        lines += ["## In short, at laptop scale", "", *scores_table(main), ""]
        lines += [*(f"- {told}" for told in sentences(main)), ""]
    lines += peer_lines(main, peers)
    for section in sections:
        lines += section_lines(section, place, page.parent)
    write_text(page, "\n".join(lines).rstrip() + "\n")
    return sections


def sentences(main: Loaded) -> list[str]:
    """Return a sentence per domain of the main study."""
    return [sentence(one) for one in against(main, "btd")]


def scores_table(main: Loaded, pages: str = "") -> list[str]:
    """Return a table of the named runs' scores, a row per domain: over seeds, beside its data's."""
    head = ["of 1000", "random", "data, mean episode", "agent (its seeds)", "95 %",
            "data, best 100 steps"]  # fmt: skip
    lines, starts, numbers = [line_of(head), "|" + "---|" * len(head)], set(), set()
    for domain in main.names("domain"):
        for row in main.pick(**(OURS | {"domain": domain})):
            if not row.scores.size:
                continue
            known = [run.results for run in row.runs() if run.results]
            starts |= {f"{r['config']['evaluate']['seed']}" for r in known}
            seeds, found = row.scores.mean(axis=1), row.interval()
            numbers.add(str(len(seeds)))
            random, mean, best = (_mean_of(known, n) for n in ("random", "data_mean", "data_best"))
            told = f"**{found.value:.0f}** ({seeds.min():.0f} to {seeds.max():.0f})"
            whole = math.isfinite(found.low)
            few = stats.ONE_SEED if len(seeds) == 1 else "one collection"
            between = f"{found.low:.0f} to {found.high:.0f}" if whole else few
            name = f"[{domain}]({pages}{domain}.md)" if pages else domain
            lines.append(line_of([name, random, mean, told, between, best]))
    if not starts:
        return lines
    about = f"Encoder fb, behavioural tasks, {' or '.join(sorted(numbers))} seeds, from starts of "
    about += f"seed {', '.join(sorted(starts))}."
    return [*lines, "", about, "Significant: p <= 0.05 after Holm's correction over all cells."]


def _mean_of(known: Sequence[dict[str, Any]], name: str) -> str:
    """Return the mean of a fact over runs; data without physics has no scores of its own."""
    values = [np.mean(results[name]) for results in known if results.get(name) is not None]
    return f"{np.mean(values):.0f}" if values else "-"


def block_of(text: str, readme: Path) -> tuple[str, str]:
    """Return what stands before and after the README's marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise DataError(f"'{readme}' has no marks: expected the lines '{BEGIN}' and '{END}'")
    return head, tail


def update_readme(readme: Path, main: Loaded, picture: str, page: str) -> None:
    """Put the main study's scores, sentences and figure between the README's marks."""
    head, tail = block_of(readme.read_text(), readme)
    told = [f"- {sentence}" for sentence in sentences(main)]
    pages = page.removesuffix(Path(page).name)
    block = [BEGIN, *scores_table(main, pages), "", *wrapped(told), "",
             f"![uniform and behavioural tasks, by encoder]({picture})", "",
             f"[All studies, and the commands that go on with them]({page})", END]  # fmt: skip
    write_text(readme, head + "\n".join(block) + tail)


def wrapped(items: Sequence[str], width: int = 100) -> list[str]:
    """Return list items in lines of at most `width` letters."""
    lines = []
    for item in items:
        line = ""
        for word in item.split():
            if line and len(line) + 1 + len(word) > width:
                lines.append(line)
                line = " "
            line += f" {word}" if line else word
        lines.append(line)
    return lines


def _named(section: Section) -> Section:
    """Name charts by their scale, so that those of another scale do not replace them."""
    scale = section.study.scale
    charts = [chart._replace(name=f"{scale}_{Path(chart.name).name}") for chart in section.charts]
    return section._replace(charts=charts)
