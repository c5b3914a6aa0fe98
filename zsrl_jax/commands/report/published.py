"""The page of the studies that are kept, the figure and the sentences of the README.

All of it is made from the small files of `kept` and the peer's lines, so that no figure is typed by
hand.
"""

import json
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
from zsrl_jax.commands.report.studies import Section, make_section
from zsrl_jax.errors import DataError
from zsrl_jax.files.atomic import write_text

BEGIN, END = (
    "<!-- made by experiments.results: begin -->",
    "<!-- made by experiments.results: end -->",
)
OURS = {"domain": "cheetah", "encoder": "fb", "sampler": "btd"}  # the peer is compared with
ABOUT = """# Studies at laptop scale

Made by `python -m experiments.results` from the files in `docs/results/studies`; a change by hand
is lost. [What the numbers are](../experiments.md#what-the-numbers-are). A score is the return of
1000 steps, mean over a domain's tasks. Seed i has a collection of its own; settings were chosen on
other collections, and on behavioural tasks. Nothing here compares with published ExORL scores.
"""


class Against(NamedTuple):
    """A sampler beside uniform on one domain, over all encoders that have both."""

    domain: str
    pairs: list[Pair]
    outcomes: list[str]  # of each pair, corrected over the study's cells
    above: np.ndarray  # [unit] mean over encoders, above the random policy
    below: np.ndarray  # [unit] the same of uniform


def against(study: Loaded, sampler: str) -> list[Against]:
    """Compare a sampler with uniform on each domain, over the units that all its cells have."""
    known = [pair for pair in comparisons.pairs_of(study, sampler) if pair.units]
    corrected, _ = comparisons.corrected_of(study, sampler)
    outcomes = [
        stats.outcome(float(np.mean(pair.above - pair.below)), p)
        for pair, p in zip(known, corrected, strict=True)
    ]
    found = []
    for domain in dict.fromkeys(pair.domain for pair in known):
        mine = [(pair, o) for pair, o in zip(known, outcomes, strict=True) if pair.domain == domain]
        pairs = [pair for pair, _ in mine]
        units = comparisons.common_units(pairs)
        if units:
            sides = comparisons.over_cells(pairs, units)
            found.append(Against(domain, pairs, [o for _, o in mine], *sides))
    return found


def sentence(one: Against) -> str:
    """Say in words how behavioural tasks do against uniform ones on a domain."""
    difference = one.above - one.below
    number, ahead = len(one.pairs), sum(np.mean(p.above - p.below) > 0 for p in one.pairs)
    told = f"**{one.domain}**: behavioural tasks are ahead of uniform ones with {ahead} of "
    told += f"{number} encoder{'s' if number > 1 else ''}"
    told += f", significantly with {one.outcomes.count(stats.WIN)}"
    if lost := one.outcomes.count(stats.LOSS):
        told += f", and significantly behind with {lost}"
    mean, p = stats.interval(difference), stats.paired_test(difference)
    number = len(difference)
    over = f"over {number} seeds" if number > 1 else "in one seed"
    told += f". The difference is {mean.value:.0f} on average {over}"
    if math.isfinite(mean.low):
        told += f" (95 %: {mean.low:.0f} to {mean.high:.0f}, p = {p:.2g})"
    gain = stats.ratio(one.above, one.below)
    if math.isfinite(gain.low):
        told += f"; above the random policy they have {gain.value:.2f} times the score "
        told += f"({gain.low:.2f} to {gain.high:.2f})"
    return told + "."


def read_peer(folder: Path) -> list[dict[str, Any]]:
    """Read the lines of `benchmarks.torch_peer`, if there are any."""
    file = folder / "peer.jsonl"
    if not file.exists():
        return []
    try:
        return [json.loads(line) for line in file.read_text().splitlines() if line]
    except ValueError as error:
        raise DataError(f"'{file}' is damaged: {error}; run benchmarks.torch_peer again") from error


def peer_lines(main: Loaded | None, peers: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of the peer beside our cell: the same data, about the same minutes."""
    rows = main.pick(**OURS) if main else []
    if not peers or not rows:
        return []
    own = {run.results["data"]["fingerprint"]: run for run in rows[0].runs() if run.results}
    head = ["seed", "PyTorch FB", "minutes", "updates", "zsrl_jax fb, btd", "minutes", "difference"]
    lines, theirs, ours = [], [], []
    for peer in peers:
        run = own.get(peer["data"])
        if run is None or run.results is None:
            continue
        seconds = sum(run.results["seconds"][stage] for stage in ("encoder", "tasks", "policy"))
        theirs.append(float(np.mean(peer["returns"])))
        ours.append(run.mean)
        minutes, updates = f"{peer['minutes']:g}", f"{peer['updates']:,}"
        scores = f"{theirs[-1]:.0f}", f"{ours[-1]:.0f}", f"{ours[-1] - theirs[-1]:.0f}"
        lines.append(
            _line([peer["seed"], scores[0], minutes, updates, scores[1], f"{seconds / 60:.1f}",
                   scores[2]])
        )  # fmt: skip
    if not lines:
        return []
    difference = np.array(ours) - np.array(theirs)
    mean = stats.interval(difference)
    told = f"Mean {np.mean(ours):.0f} against {np.mean(theirs):.0f}, difference {mean.value:.0f}"
    if math.isfinite(mean.low):
        told += (
            f" (95 %: {mean.low:.0f} to {mean.high:.0f}, p = {stats.paired_test(difference):.2g})"
        )
    about = (
        "The field's one-stage FB with its own actor, in PyTorch, on the same collections, scored "
        "on the same tasks, starts and simulator (`benchmarks/torch_peer.py`). One core each."
    )
    return ["## A peer: FB in PyTorch, equal minutes", "", about, "", _line(head),
            "|" + "---|" * len(head), *lines, "", f"{told}.", ""]  # fmt: skip


def make_page(studies: Sequence[Loaded], peers: Sequence[dict[str, Any]], page: Path,
              pictures: Path) -> list[Section]:  # fmt: skip
    """Write the page of all studies, and their figures; return its sections."""
    sections = [_named(make_section(study)) for study in studies]
    for section in sections:
        for chart in section.charts:
            figures.save(chart, pictures, kinds=("png",))
    place = relative(pictures, page.parent) + "/"
    lines = [ABOUT]
    main = next((study for study in studies if study.name == "main"), None)
    if main:
        lines += [*scores_table(main), "", *(f"- {told}" for told in sentences(main)), ""]
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
    head = ["of 1000", "random policy", "data, mean episode", "agent, seeds", "95 % interval",
            "data, best 100 steps"]  # fmt: skip
    lines = [_line(head), "|" + "---|" * len(head)]
    for domain in main.names("domain"):
        for row in main.pick(**(OURS | {"domain": domain})):
            if not row.scores.size:
                continue
            seeds, found = row.scores.mean(axis=1), row.interval()
            random, mean, best = (
                np.mean([np.mean(run.results[name]) for run in row.runs() if run.results])
                for name in ("random", "data_mean", "data_best")
            )
            told = f"**{found.value:.0f}** ({seeds.min():.0f} to {seeds.max():.0f}), {len(seeds)}"
            between = f"{found.low:.0f} to {found.high:.0f}" if len(seeds) > 1 else "one seed"
            name = f"[{domain}]({pages}{domain}.md)" if pages else domain
            values = name, f"{random:.0f}", f"{mean:.0f}", told, between, f"{best:.0f}"
            lines.append(_line(values))
    return lines


def update_readme(readme: Path, main: Loaded, picture: str, page: str) -> None:
    """Put the main study's scores, sentences and figure between the README's marks."""
    text = readme.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise DataError(f"'{readme}' has no marks: expected the lines '{BEGIN}' and '{END}'")
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
    charts = [chart._replace(name=f"studies_{chart.name}") for chart in section.charts]
    return section._replace(charts=charts)


def _line(values: Sequence[Any]) -> str:
    return "| " + " | ".join(map(str, values)) + " |"
