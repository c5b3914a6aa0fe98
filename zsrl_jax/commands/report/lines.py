"""Charts along a study's axis: scores, scores with unseen likelihood, dilution of returns.

A colour is an encoder (or a sampler, if there is one encoder); a dash or mark is what is measured.
"""

import numpy as np

from zsrl_jax.commands.report.charts import OVER, oracle_words, reference_keys, reference_lines
from zsrl_jax.commands.report.figures import Chart, cross, finish, legend, line, palette, panels
from zsrl_jax.commands.report.load import Loaded, Row
from zsrl_jax.training import metrics

AXES = {
    "encoder.dim": "dimension d of features and tasks",
    "tasks.alpha": "share alpha of uniform tasks",
    "tasks.num_components": "components K of the mixture",
    "tasks.num_subtrajectories": "sub-trajectories N_tau",
}
LOGARITHMIC = ("encoder.dim", "tasks.num_components", "tasks.num_subtrajectories")
MARKS = {"uniform": "o", "subtraj": "s", "btd": "^"}


UNSEEN = "tasks/unseen_log_likelihood"


def along(study: Loaded) -> Chart:
    """Draw score against the study's axis: a panel per domain, a line per encoder and sampler."""
    domains, shades = study.names("domain"), _shades(study)
    figure, axes = panels(len(domains), room=1.5)
    for axis, domain in zip(axes, domains, strict=True):
        for i, (encoder, sampler) in enumerate(shades):
            rows = study.pick(domain=domain, encoder=encoder, sampler=sampler)
            _scores(axis, rows, shades[encoder, sampler], sampler, i)
        reference_lines(axis, study, domain)
        label_axis(axis, study, domain)
        axis.set_ylim(0, max(1.05 * axis.get_ylim()[1], 1.0))
    axes[0].set_ylabel("mean return over tasks")
    legend(figure, [*_keys(study, shades), *reference_keys(study)])
    caption = (
        f"Score against {study.axis}; bands: 95 % intervals ({OVER}). Dashed red: TD3 trained on "
        f"the true rewards{oracle_words(study)}; dotted: random policy."
    )
    return finish(study.name, caption, figure, study.rows)


def _shades(study: Loaded) -> dict[tuple[str, str], str]:
    """Return the colour of every line: by encoder, or by sampler where there is one encoder."""
    encoders, samplers = study.names("encoder"), study.names("sampler")
    by = palette(encoders if len(encoders) > 1 else samplers)
    pairs = [(encoder, sampler) for encoder in encoders for sampler in samplers]
    return {(e, s): by[e if len(encoders) > 1 else s] for e, s in pairs}


def _keys(study: Loaded, shades: dict[tuple[str, str], str]) -> list:
    """Return the entries of a legend: colours, then dashes where samplers share a colour."""
    encoders, samplers = study.names("encoder"), study.names("sampler")
    if len(encoders) == 1:
        keys = [line(f"{e}, {s}", shade, _dash(s)) for (e, s), shade in shades.items()]
    else:
        keys = [line(e, shades[e, samplers[-1]], _dash(samplers[-1])) for e in encoders]
        if len(samplers) > 1:
            keys += [line(sampler, "black", _dash(sampler)) for sampler in samplers]
    return keys + ([cross()] if study.missing() else [])


def _dash(sampler: str) -> str:
    return "--" if sampler == "uniform" else "-"


def _scores(axis, rows: list[Row], shade: str, sampler: str, index: int) -> None:
    known = sorted((row for row in rows if row.scores.size), key=lambda row: row.value or 0)
    mark_missing(axis, [row for row in rows if not row.scores.size], shade, index)
    if not known:
        return
    x = [row.value for row in known]
    found = [row.interval() for row in known]
    axis.plot(x, [f.value for f in found], _dash(sampler), color=shade, marker="o", markersize=3.5)
    if any(len(row.scores) > 1 for row in known):
        low, high = [f.low for f in found], [f.high for f in found]
        axis.fill_between(x, low, high, color=shade, alpha=0.15, linewidth=0)


def mark_missing(axis, rows: list[Row], shade: str, index: int) -> None:
    """Put a cross above the axis where a point is missing; crosses of other lines go higher."""
    for row in rows:
        axis.annotate("×", (row.value or 0, 0.02), (0, 6 * index), color=shade, fontsize=9,
                      xycoords=axis.get_xaxis_transform(), textcoords="offset points",
                      ha="center").set_in_layout(False)  # fmt: skip


def label_axis(axis, study: Loaded, title: str) -> None:
    """Put the values of the study on its horizontal axis."""
    values = sorted({row.value for row in study.rows if row.value is not None})
    if study.axis in LOGARITHMIC:
        axis.set_xscale("log")
        axis.minorticks_off()
    axis.set_xticks(values, [_short(value) for value in values], fontsize=8)
    axis.set_xlabel(AXES[study.axis])
    axis.set_title(title)


def _short(value: float) -> str:
    power = round(np.log10(value)) if value > 0 else 0
    return f"$10^{power}$" if power >= 4 and value == 10**power else f"{value:g}"


def components(study: Loaded) -> Chart:
    """Draw score against K, and on a second axis the log-likelihood of unseen task vectors."""
    chart, shades = along(study), _shades(study)
    for axis, domain in zip(list(chart.figure.axes), study.names("domain"), strict=True):
        second = axis.twinx()
        second.spines["top"].set_visible(False)
        for (encoder, sampler), shade in shades.items():
            rows = study.pick(domain=domain, encoder=encoder, sampler=sampler)
            points = [(row.value, unseen_likelihood(row)) for row in rows]
            points = sorted((x, y) for x, y in points if y is not None)
            if points:
                second.plot(*zip(*points, strict=True), "-.", color=shade, marker="D", markersize=3)
        second.tick_params(labelsize=8)
    second.set_ylabel("unseen log-likelihood per task vector")
    kinds = [line("score (left)", "black", "-"), line("likelihood (right)", "black", "-.", "D")]
    chart.figure.legends[0].remove()
    legend(chart.figure, [*_keys(study, shades), *kinds, *reference_keys(study)])
    note = " Diamonds, right axis: mean log-likelihood of task vectors that the fit has not seen."
    return chart._replace(caption=chart.caption + note)


def unseen_likelihood(row: Row) -> float | None:
    """Return a run's log-likelihood of unseen task vectors, over the seeds that have a score."""
    values = [value for run in row.runs() for value in _unseen(run)]
    return float(np.mean(values)) if values else None


def _unseen(run: Row) -> list[float]:
    scored = [seed in run.by_seed() for seed in (run.results or {}).get("seeds", ())]
    found = unseen_by_seed(run) if any(scored) else []
    return [float(value) for value, good in zip(found, scored, strict=bool(found)) if good]


def unseen_by_seed(run: Row) -> list[float]:
    """Return every seed's log-likelihood of unseen task vectors, as kept or logged; [] if none."""
    kept: list[float] = (run.results or {}).get("unseen", [])
    if kept or not (run.folder / metrics.FILE).exists():
        return kept
    return next((logged[UNSEEN] for logged in metrics.read(run.folder) if UNSEEN in logged), [])


def dilution(study: Loaded) -> Chart:
    """Draw Tr(Sigma) / d and the measured variance of returns against d, a panel per domain."""
    domains, encoders = study.names("domain"), study.names("encoder")
    shades = palette(encoders)
    figure, axes = panels(len(domains), room=1.5)
    for axis, domain in zip(axes, domains, strict=True):
        for i, encoder in enumerate(encoders):
            rows = study.pick(domain=domain, encoder=encoder)
            known = sorted((r for r in rows if r.results), key=lambda row: row.value or 0)
            mark_missing(axis, [r for r in rows if not r.results], shades[encoder], i)
            _variances(axis, known, shades[encoder])
        label_axis(axis, study, domain)
        axis.set_yscale("log")
    axes[0].set_ylabel("variance of psi.z over behaviours\n(unit phi, z)")
    keys = [line(encoder, shade) for encoder, shade in shades.items()]
    keys += [line("Tr(Sigma)/d", "black")]
    keys += [line(f"measured, {name}", "black", ":", mark) for name, mark in MARKS.items()]
    legend(figure, keys + ([cross()] if study.missing() else []))
    caption = (
        "Tr(Sigma)/d of the occupancies of sub-trajectories (line), and the variance of returns "
        "measured under tasks of each sampler (marks), means over seeds. The proposition says that "
        "uniform's equals the line."
    )
    return finish(study.name, caption, figure, study.rows)


def _variances(axis, known: list[Row], shade: str) -> None:
    found = [row.results["dilution"] for row in known if row.results]
    x = [row.value for row in known]
    axis.plot(x, [np.mean(f["trace"]) for f in found], color=shade, linewidth=1)
    for name, mark in MARKS.items():
        values = [np.mean(f["variance"][name]) for f in found]
        axis.plot(x, values, mark, color=shade, markersize=5, markerfacecolor="none",
                  linestyle="" if name == "uniform" else ":", linewidth=0.8)  # fmt: skip
