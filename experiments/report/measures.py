"""Charts of what is measured without scores: dilution, unseen likelihood, the space of tasks."""

import json

import numpy as np

from experiments.report import charts
from experiments.report.figures import MARKERS, Chart, colour, finish, mark_missing, panels
from experiments.report.load import Loaded, Row
from experiments.report.tables import Entry, Table, number
from zsrl_jax import geometry

LABELS = {"subtraj": "data (p_data)", "btd": "btd", "uniform": "uniform", "tasks": "test tasks"}


def dilution(study: Loaded) -> Chart:
    """Draw Tr(Sigma) / d and the measured variance of returns against d, a panel a domain."""
    domains, encoders = study.names("domain"), study.names("encoder")
    figure, axes = panels(len(domains), width=4.6)
    for axis, domain in zip(axes, domains, strict=True):
        for i, encoder in enumerate(encoders):
            rows = study.pick(domain=domain, encoder=encoder)
            known = sorted((r for r in rows if r.results), key=lambda row: row.value or 0)
            for row in rows:
                if row.results is None:
                    mark_missing(axis, row.value, encoder)
            _dilution_lines(axis, known, f"{encoder}, " if len(encoders) > 1 else "", i)
        charts.label_axis(axis, study, domain)
        axis.set_yscale("log")
        axis.legend(fontsize=6, frameon=False, loc="lower left")
    axes[0].set_ylabel("variance of psi.z over behaviours (unit phi, z)")
    caption = (
        "Tr(Sigma)/d of the occupancies of sub-trajectories (line), and the variance of returns "
        "measured under tasks of each sampler (marks), means over seeds. The proposition says that "
        "uniform's equals the line."
    )
    return finish(study.name, caption, figure, study.rows)


def _dilution_lines(axis, known: list[Row], label: str, index: int) -> None:
    if not known:
        return
    found = [row.results["dilution"] for row in known if row.results]
    x, mark = [row.value for row in known], MARKERS[index % len(MARKERS)]
    axis.plot(x, [np.mean(f["trace"]) for f in found], color="black", linewidth=1,
              label=f"{label}Tr(Sigma)/d")  # fmt: skip
    for name in found[0]["variance"]:
        values = [np.mean(f["variance"][name]) for f in found]
        axis.plot(x, values, mark, color=colour(name), linestyle=":", linewidth=0.8,
                  markersize=5, label=f"{label}{name}")  # fmt: skip


def dilution_table(study: Loaded) -> Table:
    """Return the numbers of the dilution chart, with the proposition's relative gap."""
    head = ["domain", "encoder", "d", "Tr(Sigma)/d", "uniform", "gap %", "subtraj", "btd", "run"]
    body = []
    for row in study.rows:
        line = [Entry(row.domain), Entry(row.encoder), Entry(f"{row.value:g}", row.value)]
        run = Entry(row.folder.name, None, row.folder if row.results else None)
        if row.results is None:
            body.append([*line, *(number(float("nan")) for _ in range(5)), run])
            continue
        found = row.results["dilution"]
        trace = float(np.mean(found["trace"]))
        variance = {name: float(np.mean(value)) for name, value in found["variance"].items()}
        gap = 100 * (variance["uniform"] / trace - 1)
        values = trace, variance["uniform"], gap, variance["subtraj"], variance["btd"]
        body.append([*line, *(number(v, d) for v, d in zip(values, (4, 4, 2, 4, 4), strict=True)),
                     run])  # fmt: skip
    return Table("Variance of returns; gap: uniform against Tr(Sigma)/d", head, body)


def components(study: Loaded) -> Chart:
    """Draw score against K, and on a second axis the log-likelihood of unseen task vectors."""
    chart = charts.along(study)
    for axis, domain in zip(list(chart.figure.axes), study.names("domain"), strict=True):
        second = axis.twinx()
        second.spines["top"].set_visible(False)
        for i, encoder in enumerate(study.names("encoder")):
            rows = study.pick(domain=domain, encoder=encoder)
            points = [(row.value, unseen_likelihood(row)) for row in rows]
            points = sorted((x, y) for x, y in points if y is not None)
            if points:
                second.plot(*zip(*points, strict=True), color="#555555", linestyle=":",
                            marker=MARKERS[i % len(MARKERS)], markersize=4,
                            label=f"{encoder}, unseen log-likelihood")  # fmt: skip
        second.set_ylabel("unseen log-likelihood a vector")
        second.legend(fontsize=6, frameon=False, loc="upper right")
    note = " Dotted, right axis: mean log-likelihood of task vectors that the fit has not seen."
    return chart._replace(caption=chart.caption + note)


def unseen_likelihood(row: Row) -> float | None:
    """Return a run's log-likelihood of unseen task vectors, from its metrics."""
    file = row.folder / "metrics.jsonl"
    for text in file.read_text().splitlines() if file.exists() else ():
        if "tasks/unseen_log_likelihood" in text:
            values = json.loads(text)["tasks/unseen_log_likelihood"]
            return float(np.mean([float(v) for v in values]))
    return None


def task_space(study: Loaded) -> list[Chart]:
    """Draw UMAP beside PCA of the first seed's vectors, a figure a domain and encoder."""
    found = []
    for row in study.rows:
        figure, axes = panels(2, width=4.4, height=3.8)
        name = f"{study.name}_{row.domain}_{row.encoder}"
        vectors = _vectors(row)
        for axis, (title, project) in zip(axes, (("UMAP", _umap), ("PCA", _pca)), strict=True):
            axis.set_title(f"{row.domain}, {row.encoder}: {title}")
            axis.set(xticks=[], yticks=[])
            plane = project(np.concatenate(list(vectors.values()))) if vectors else None
            if plane is None:
                told = "missing" if not vectors else "needs umap-learn:\npip install '.[report]'"
                axis.text(0.5, 0.5, told, ha="center", color="#b00020", transform=axis.transAxes)
                continue
            _scatter(axis, vectors, plane)
        axes[0].legend(fontsize=7, frameon=False, markerscale=2)
        caption = "Task vectors of the first seed, by their angles. " + _overlap_words(row)
        found.append(finish(name, caption, figure, [row]))
    return found


def _scatter(axis, vectors: dict[str, np.ndarray], plane: np.ndarray) -> None:
    start = 0
    for name, part in vectors.items():
        x, y = plane[start : start + len(part)].T
        start += len(part)
        big = name == "tasks"
        axis.scatter(x, y, s=90 if big else 4, marker="*" if big else ".", zorder=3 if big else 1,
                     color=colour(name), alpha=1 if big else 0.5, label=LABELS[name],
                     edgecolors="black" if big else "none", linewidths=0.5)  # fmt: skip


def _vectors(row: Row) -> dict[str, np.ndarray]:
    file = row.folder / "vectors.npz"
    if row.results is None or not file.exists():
        return {}
    with np.load(file) as stored:
        return {name: geometry.unit(stored[name][0]) for name in LABELS}


def _umap(x: np.ndarray) -> np.ndarray | None:
    try:
        import umap
    except ImportError:
        return None
    return umap.UMAP(metric="cosine", random_state=0, n_jobs=1).fit_transform(x)


def _pca(x: np.ndarray) -> np.ndarray:
    return geometry.principal_plane(x)


def _overlap_words(row: Row) -> str:
    if row.results is None:
        return "Overlap: missing."
    found = row.results["task_space"]["overlap"]
    share = {k: np.mean([f["share"][k] for f in found]) for k in ("btd", "uniform")}
    return (
        f"Nearest neighbour of a test task, at a cosine of {found[0]['threshold']} or more: a btd "
        f"sample for {100 * share['btd']:.0f} % of tasks, a uniform one for "
        f"{100 * share['uniform']:.0f} % (mean over {len(found)} seeds)."
    )


def overlap_table(study: Loaded) -> Table:
    """Return overlap numbers, run by run."""
    head = ["domain", "encoder", "btd nearest %", "uniform nearest %", "none near %",
            "best cosine btd", "best cosine uniform", "run"]  # fmt: skip
    body = []
    for row in study.rows:
        line = [Entry(row.domain), Entry(row.encoder)]
        run = Entry(row.folder.name, None, row.folder if row.results else None)
        if row.results is None:
            body.append([*line, *(number(float("nan")) for _ in range(5)), run])
            continue
        found = row.results["task_space"]["overlap"]
        b, u = (100 * np.mean([f["share"][k] for f in found]) for k in ("btd", "uniform"))
        cosine = [np.mean([f["cosine"][k] for f in found]) for k in ("btd", "uniform")]
        values = [number(v) for v in (b, u, 100 - b - u)]
        body.append([*line, *values, *(number(float(c), 2) for c in cosine), run])
    return Table("Overlap of test tasks with what policies are trained on", head, body)
