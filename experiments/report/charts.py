"""The paper's charts of scores: bars, boxes, lines along an axis, performance profiles."""

import math

import numpy as np

from experiments.report.figures import MARKERS, Chart, colour, finish, mark_missing, panels
from experiments.report.load import Loaded, Row
from experiments.report.tables import strata
from zsrl_jax import statistics as stats

LOGARITHMIC = ("encoder.dim", "tasks.num_components", "tasks.num_subtrajectories")


def bars(study: Loaded) -> Chart:
    """Draw a panel a domain: mean score of every encoder and sampler, intervals, oracle line."""
    domains, encoders = study.names("domain"), study.names("encoder")
    samplers = study.names("sampler")
    figure, axes = panels(len(domains), width=1.6 + 0.55 * len(encoders))
    for axis, domain in zip(axes, domains, strict=True):
        for j, sampler in enumerate(samplers):
            for i, encoder in enumerate(encoders):
                x = i + (j - (len(samplers) - 1) / 2) * 0.8 / len(samplers)
                rows = study.pick(domain=domain, encoder=encoder, sampler=sampler)
                _bar(axis, x, 0.8 / len(samplers), rows[0] if rows else None, sampler)
        _lines(axis, study, domain)
        axis.set_xticks(range(len(encoders)), encoders, rotation=35, ha="right", fontsize=8)
        axis.set_ylim(0, 1.25 * axis.get_ylim()[1])  # room for the legend
        axis.set_title(domain)
    for sampler in samplers:
        axes[0].bar(0, 0, color=colour(sampler), label=sampler)
    axes[0].set_ylabel("mean return over tasks")
    axes[0].legend(fontsize=7, frameon=False)
    caption = (
        "Mean return over a domain's tasks, with 95 % intervals (stratified bootstrap over seeds, "
        "where there are several). Dashed: TD3 trained on the true rewards; dotted: random policy."
    )
    return finish(study.name, caption, figure, study.rows)


def _bar(axis, x: float, width: float, row: Row | None, sampler: str) -> None:
    if row is None or not row.scores.size:
        mark_missing(axis, x)
        return
    found = stats.bootstrap(row.scores, stats.mean)
    error = [[max(found.value - found.low, 0)], [max(found.high - found.value, 0)]]
    axis.bar(x, found.value, width * 0.95, color=colour(sampler))
    if len(row.scores) > 1:
        axis.errorbar(x, found.value, error, color="black", capsize=2, linewidth=0.9)


def _lines(axis, study: Loaded, domain: str) -> None:
    """Draw the oracle's and the random policy's mean over tasks."""
    oracle = study.pick(domain=domain, kind="oracle")
    if oracle and all(row.scores.size for row in oracle):
        axis.axhline(np.mean([r.mean for r in oracle]), color="#d62728", linestyle="--",
                     linewidth=1, label="oracle")  # fmt: skip
    elif oracle:
        axis.plot([], [], color="#d62728", linestyle="--", label="oracle: missing")
    known = [row for row in study.pick(domain=domain) if row.results and row.kind != "oracle"]
    if known and known[0].results:
        chance = np.mean(known[0].results["random"])
        axis.axhline(chance, color="black", linestyle=":", linewidth=1, label="random policy")


def boxes(study: Loaded) -> Chart:
    """Draw the spread of encoders' mean scores: uniform solid, btd hatched, a pair a domain."""
    domains = study.names("domain")
    figure, (axis,) = panels(1, width=1.8 + 1.6 * len(domains))
    for i, domain in enumerate(domains):
        for x, sampler in ((i - 0.2, "uniform"), (i + 0.2, "btd")):
            means = [row.mean for row in study.pick(domain=domain, sampler=sampler)]
            means = [mean for mean in means if math.isfinite(mean)]
            if not means:
                mark_missing(axis, x)
                continue
            drawn = axis.boxplot(
                means, positions=[x], widths=0.32, patch_artist=True, whis=(0, 100)
            )
            drawn["boxes"][0].set(facecolor=colour(sampler), alpha=0.65,
                                  hatch="////" if sampler == "btd" else None)  # fmt: skip
            drawn["medians"][0].set(color="black")
            axis.plot([x] * len(means), means, "k.", markersize=4)
        oracle = study.pick(domain=domain, kind="oracle")
        if oracle and all(row.scores.size for row in oracle):
            axis.hlines(np.mean([r.mean for r in oracle]), i - 0.45, i + 0.45, color="#d62728",
                        linestyle="--", label="oracle" if i == 0 else None)  # fmt: skip
    axis.bar(0, 0, color=colour("uniform"), alpha=0.65, label="uniform")
    axis.bar(0, 0, color=colour("btd"), alpha=0.65, hatch="////", label="btd")
    axis.set_xticks(range(len(domains)), domains)
    axis.set_xlim(-0.6, len(domains) - 0.4)
    axis.set_ylim(0, 1.3 * axis.get_ylim()[1])
    axis.set_ylabel("mean return over tasks")
    axis.legend(fontsize=7, frameon=False)
    caption = "A point is an encoder, its score the mean over tasks and seeds; whiskers: extremes."
    return finish(study.name, caption, figure, study.rows)


def along(study: Loaded) -> Chart:
    """Draw score against the study's axis: a panel a domain, a line an encoder and sampler."""
    domains = study.names("domain")
    figure, axes = panels(len(domains))
    for axis, domain in zip(axes, domains, strict=True):
        for i, encoder in enumerate(study.names("encoder")):
            for sampler in study.names("sampler"):
                rows = study.pick(domain=domain, encoder=encoder, sampler=sampler)
                _line(axis, rows, f"{encoder}, {sampler}", _style(study, i, sampler))
        label_axis(axis, study, domain)
        axis.set_ylim(0, 1.3 * axis.get_ylim()[1])  # room for the legend
    axes[0].set_ylabel("mean return over tasks")
    axes[0].legend(fontsize=7, frameon=False, handlelength=3)
    caption = f"Score against {study.axis}; bands: 95 % intervals over seeds (bootstrap)."
    return finish(study.name, caption, figure, study.rows)


def _style(study: Loaded, index: int, sampler: str) -> dict:
    alone = len(study.names("encoder")) == 1
    dash = "-" if sampler != "uniform" else "--"
    return {"color": colour(sampler if alone else "", index), "linestyle": dash,
            "marker": MARKERS[index % len(MARKERS)], "markersize": 4}  # fmt: skip


def _line(axis, rows: list[Row], label: str, style: dict) -> None:
    known = sorted((row for row in rows if row.scores.size), key=lambda row: row.value or 0)
    for row in rows:
        if not row.scores.size:
            mark_missing(axis, row.value, label, style["color"])
    if not known:
        axis.plot([], [], label=f"{label}: missing", **style)
        return
    x = [row.value for row in known]
    found = [stats.bootstrap(row.scores, stats.mean) for row in known]
    axis.plot(x, [f.value for f in found], label=label, **style)
    if any(len(row.scores) > 1 for row in known):
        low, high = [f.low for f in found], [f.high for f in found]
        axis.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)


def label_axis(axis, study: Loaded, title: str) -> None:
    """Put the values of the study on its horizontal axis."""
    values = sorted({row.value for row in study.rows if row.value is not None})
    if study.axis in LOGARITHMIC:
        axis.set_xscale("log")
        axis.minorticks_off()
    axis.set_xticks(values, [f"{v:g}" if v < 1e5 else f"{v:.0e}" for v in values], fontsize=8)
    axis.set_xlabel(study.axis)
    axis.set_title(title)


def profiles(study: Loaded) -> Chart:
    """Draw the share of runs and tasks above each score."""
    domains = study.names("domain")
    figure, axes = panels(len(domains), width=3.6)
    for axis, domain in zip(axes, domains, strict=True):
        for sampler in study.names("sampler"):
            rows = study.pick(domain=domain, sampler=sampler)
            tables = [row.scores for row in rows if row.scores.size]
            if tables:
                scores = np.concatenate(strata(tables), axis=1)
                taus = np.linspace(0, 1000, 201)
                axis.plot(taus, stats.profile(scores, taus), color=colour(sampler), label=sampler)
            else:
                axis.plot([], [], color=colour(sampler), label=f"{sampler}: missing")
        axis.set_xlabel("score tau")
        axis.set_title(domain)
        axis.legend(fontsize=7, frameon=False, loc="upper right")
    axes[0].set_ylabel("share of runs x tasks above tau")
    caption = "Performance profiles over all encoders, seeds and tasks of a domain."
    return finish(f"{study.name}_profiles", caption, figure, study.rows)


def sampler_bars(study: Loaded) -> Chart:
    """Draw a panel a domain: every sampler with a centred reward and (hatched) without."""
    domains, samplers = study.names("domain"), study.names("sampler")
    figure, axes = panels(len(domains), width=1.8 + 0.5 * len(samplers))
    for axis, domain in zip(axes, domains, strict=True):
        for i, sampler in enumerate(samplers):
            for row in study.pick(domain=domain, sampler=sampler):
                centred = row.fields.get("policy.center_reward", True)
                before = len(axis.patches)
                _bar(axis, i + (-0.2 if centred else 0.2), 0.4, row, sampler)
                for patch in axis.patches[before:]:
                    patch.set_hatch(None if centred else "////")
        _lines(axis, study, domain)
        axis.set_xticks(range(len(samplers)), samplers, rotation=35, ha="right", fontsize=8)
        axis.set_ylim(0, 1.3 * axis.get_ylim()[1])
        axis.set_title(domain)
    axes[0].bar(0, 0, color="#cccccc", label="centred reward")
    axes[0].bar(0, 0, color="#cccccc", hatch="////", label="as in the paper")
    axes[0].set_ylabel("mean return over tasks")
    axes[0].legend(fontsize=7, frameon=False)
    caption = "Samplers on FB features; hatched without policy.center_reward. 95 % intervals."
    return finish(study.name, caption, figure, study.rows)
