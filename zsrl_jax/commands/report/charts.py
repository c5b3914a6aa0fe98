"""The paper's charts of scores: bars, boxes, performance profiles."""

import math

import numpy as np

from zsrl_jax.analysis import statistics as stats
from zsrl_jax.commands.report.figures import (
    Chart,
    colour,
    finish,
    legend,
    line,
    mark_missing,
    panels,
    patch,
)
from zsrl_jax.commands.report.load import Loaded, Row
from zsrl_jax.commands.report.stamps import updates_of

RED = "#d62728"
OVER = "Student's t over seeds, or over collections where there are several"


def bars(study: Loaded) -> Chart:
    """Draw a panel per domain: mean score per encoder and sampler, intervals, oracle line."""
    domains, samplers = study.names("domain"), study.names("sampler")
    most = max(len(_encoders(study, domain)) for domain in domains)
    figure, axes = panels(len(domains), width=1.6 + 0.45 * most, room=1.3)
    for axis, domain in zip(axes, domains, strict=True):
        encoders = _encoders(study, domain)
        for j, sampler in enumerate(samplers):
            for i, encoder in enumerate(encoders):
                x = i + (j - (len(samplers) - 1) / 2) * 0.8 / len(samplers)
                rows = study.pick(domain=domain, encoder=encoder, sampler=sampler)
                _bar(axis, x, 0.8 / len(samplers), rows[0] if rows else None, sampler)
        reference_lines(axis, study, domain)
        axis.set_xticks(range(len(encoders)), encoders, rotation=35, ha="right", fontsize=8)
        room = 0.6 + max(0, 3 - len(encoders)) / 2  # so that few bars are no wider than many
        axis.set_xlim(-room, len(encoders) - 1 + room)
        axis.set_ylim(0, max(axis.get_ylim()[1], 1.0))
        axis.set_title(domain)
    axes[0].set_ylabel("mean return over tasks")
    legend(figure, [*(patch(name, colour(name)) for name in samplers), *reference_keys(study)])
    caption = (
        f"Mean return over a domain's tasks, with 95 % intervals ({OVER}). Dashed: TD3 trained on "
        f"the true rewards{oracle_words(study)}; dotted: random policy."
    )
    return finish(study.name, caption, figure, study.rows)


def _encoders(study: Loaded, domain: str) -> list[str]:
    """Return the encoders of a domain's cells, in the study's order."""
    cells = study.pick(domain=domain)
    return list(dict.fromkeys(row.encoder for row in cells if row.kind != "oracle"))


def setting_bars(study: Loaded) -> Chart:
    """Draw a panel per domain: both samplers' mean score under each group of settings."""
    domains, samplers = study.names("domain"), study.names("sampler")
    known = {id(row): "\n".join(study.settings_of(row)) or "preset" for row in study.rows}
    labels = list(dict.fromkeys(known[id(row)] for row in study.pick(kind="score")))
    figure, axes = panels(len(domains), width=1.6 + 0.9 * len(labels), room=1.5)
    for axis, domain in zip(axes, domains, strict=True):
        for row in study.pick(domain=domain, kind="score"):
            j = samplers.index(row.sampler) - (len(samplers) - 1) / 2
            width = 0.8 / len(samplers)
            _bar(axis, labels.index(known[id(row)]) + j * width, width, row, row.sampler)
        reference_lines(axis, study, domain)
        axis.set_xticks(range(len(labels)), labels, fontsize=8)
        axis.set_ylim(0, max(axis.get_ylim()[1], 1.0))
        axis.set_title(domain)
    axes[0].set_ylabel("mean return over tasks")
    legend(figure, [*(patch(name, colour(name)) for name in samplers), *reference_keys(study)])
    caption = f"Mean return over a domain's tasks, with 95 % intervals ({OVER}). Dotted: random "
    return finish(study.name, caption + "policy.", figure, study.rows)


def _bar(axis, x: float, width: float, row: Row | None, sampler: str) -> None:
    if row is None or not row.scores.size:
        mark_missing(axis, x)
        return
    found = row.interval()
    axis.bar(x, found.value, width * 0.95, color=colour(sampler))
    if math.isfinite(found.low):
        error = [[found.value - found.low], [found.high - found.value]]
        axis.errorbar(x, found.value, error, color="black", capsize=2, linewidth=0.9)


def reference_lines(axis, study: Loaded, domain: str) -> None:
    """Draw the oracle's and the random policy's mean over tasks."""
    oracle = oracle_mean(study, domain)
    if math.isfinite(oracle):
        axis.axhline(oracle, color=RED, linestyle="--", linewidth=1.2)
    known = [row for row in study.pick(domain=domain) if row.results and row.kind != "oracle"]
    if known and known[0].results:
        axis.axhline(np.mean(known[0].results["random"]), color="black", linestyle=":", linewidth=1)


def oracle_mean(study: Loaded, domain: str) -> float:
    """Return the oracle's mean over tasks; nan if it is missing or the study has none."""
    means = [row.mean for row in study.pick(domain=domain, kind="oracle")]
    return float(np.mean(means)) if means else float("nan")


def oracle_words(study: Loaded) -> str:
    """Return with how many updates the oracle was trained, if it is there."""
    updates = updates_of(study.rows, "oracle")
    return f", {updates} updates" if updates else ""


def reference_keys(study: Loaded, chance: bool = True) -> list:
    """Return a legend's entries for the oracle (or that it is missing) and the random policy."""
    oracles = [row for row in study.rows if row.kind == "oracle"]
    lost = [row.domain for row in oracles if not row.scores.size]
    told = f"oracle{oracle_words(study)}".replace(", ", "\n")
    told += f"\n(missing: {', '.join(lost)})" if lost else ""
    keys = [line(told, RED, "--")] if oracles else []
    return keys + ([line("random policy", "black", ":")] if chance else [])


def boxes(study: Loaded) -> Chart:
    """Draw boxes of encoders' mean scores, a pair per domain: uniform solid, btd hatched."""
    domains = study.names("domain")
    figure, (axis,) = panels(1, width=1.8 + 1.6 * len(domains), room=1.3)
    for i, domain in enumerate(domains):
        for x, sampler in ((i - 0.2, "uniform"), (i + 0.2, "btd")):
            means = [row.mean for row in study.pick(domain=domain, sampler=sampler)]
            whole, means = len(means), [mean for mean in means if math.isfinite(mean)]
            if not means:
                mark_missing(axis, x)
                continue
            if len(means) < whole:
                axis.annotate(f"{len(means)} of {whole}", (x, max(means)), (0, 4), ha="center",
                              textcoords="offset points", fontsize=7, color="#b00020")  # fmt: skip
            drawn = axis.boxplot(
                means, positions=[x], widths=0.32, patch_artist=True, whis=(0, 100)
            )
            drawn["boxes"][0].set(facecolor=colour(sampler), alpha=0.75,
                                  hatch="////" if sampler == "btd" else None)  # fmt: skip
            drawn["medians"][0].set(color="black")
            axis.plot([x] * len(means), means, "k.", markersize=4)
        if math.isfinite(oracle := oracle_mean(study, domain)):
            axis.hlines(oracle, i - 0.45, i + 0.45, color=RED, linestyle="--")
    axis.set_xticks(range(len(domains)), domains)
    axis.set_xlim(-0.6, len(domains) - 0.4)
    axis.set_ylim(0, max(axis.get_ylim()[1], 1.0))
    axis.set_ylabel("mean return over tasks")
    keys = [patch("uniform", colour("uniform")), patch("btd", colour("btd"), "////")]
    legend(figure, [*keys, *reference_keys(study, chance=False)])
    caption = "A point is an encoder, its score the mean over tasks and seeds; whiskers: extremes."
    return finish(study.name, caption, figure, study.rows)


def profiles(study: Loaded) -> Chart:
    """Draw the share of runs and tasks above each score."""
    domains = study.names("domain")
    figure, axes = panels(len(domains), width=3.6, room=1.1)
    for axis, domain in zip(axes, domains, strict=True):
        for j, sampler in enumerate(study.names("sampler")):
            rows = study.pick(domain=domain, sampler=sampler)
            tables = [row.scores for row in rows if row.scores.size]
            if tables:
                scores = np.concatenate([table.reshape(-1) for table in tables])
                taus = np.linspace(0, 1.02 * scores.max(), 201)
                axis.plot(taus, stats.profile(scores, taus), color=colour(sampler))
            if len(tables) < len(rows):
                lost = f"{sampler}: {len(rows) - len(tables)} of {len(rows)} encoders missing"
                axis.text(0.98, 0.9 - 0.08 * j, lost, ha="right", fontsize=7, color="#b00020",
                          transform=axis.transAxes)  # fmt: skip
        axis.set_xlabel("score tau")
        axis.set_title(domain)
    legend(figure, [line(sampler, colour(sampler)) for sampler in study.names("sampler")])
    axes[0].set_ylabel("share of runs x tasks above tau")
    caption = "Performance profiles over all encoders, seeds and tasks of a domain."
    return finish(f"{study.name}_profiles", caption, figure, study.rows)


def sampler_bars(study: Loaded) -> Chart:
    """Draw a panel per domain: every sampler with a centred reward and (hatched) without."""
    domains, samplers = study.names("domain"), study.names("sampler")
    figure, axes = panels(len(domains), width=1.8 + 0.45 * len(samplers), room=1.5)
    for axis, domain in zip(axes, domains, strict=True):
        for i, sampler in enumerate(samplers):
            for row in study.pick(domain=domain, sampler=sampler):
                centred = row.fields.get("policy.center_reward", True)
                before = len(axis.patches)
                _bar(axis, i + (-0.2 if centred else 0.2), 0.4, row, sampler)
                for bar in axis.patches[before:]:
                    bar.set_hatch(None if centred else "////")
        reference_lines(axis, study, domain)
        axis.set_xticks(range(len(samplers)), samplers, rotation=35, ha="right", fontsize=8)
        axis.set_ylim(0, max(axis.get_ylim()[1], 1.0))
        axis.set_title(domain)
    axes[0].set_ylabel("mean return over tasks")
    keys = [patch("centred reward", "#cccccc"), patch("as in the paper", "#cccccc", "////")]
    legend(figure, [*keys, *reference_keys(study)])
    caption = f"Samplers on {', '.join(study.names('encoder'))} features; hatched without "
    caption += f"policy.center_reward. 95 % intervals ({OVER})."
    return finish(study.name, caption, figure, study.rows)
