"""Studies without scores: a chart of the space of tasks, and tables of both studies."""

import numpy as np
from matplotlib.patheffects import withStroke

from zsrl_jax.analysis import geometry
from zsrl_jax.commands.report.figures import Chart, colour, dot, finish, legend, panels
from zsrl_jax.commands.report.load import Loaded, Row
from zsrl_jax.commands.report.tables import Entry, Table, number

LABELS = {"subtraj": "data (p_data)", "btd": "btd", "uniform": "uniform", "tasks": "test tasks"}


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


def task_space(study: Loaded) -> list[Chart]:
    """Draw UMAP beside PCA of the first seed's vectors, one figure per domain and encoder."""
    found = []
    for row in study.rows:
        figure, axes = panels(2, width=4.0, height=3.7, room=1.2)
        name = f"{study.name}_{row.domain}_{row.encoder}"
        vectors = _vectors(row)
        for axis, (title, project) in zip(axes, (("UMAP", _umap), ("PCA", _pca)), strict=True):
            axis.set_title(f"{row.domain}, {row.encoder}: {title}")
            axis.set(xticks=[], yticks=[])
            plane = project(np.concatenate(list(vectors.values()))) if vectors else None
            if plane is None:
                told = (
                    "missing"
                    if not vectors
                    else "needs umap-learn:\npip install 'zsrl_jax[report]'"
                )
                axis.text(0.5, 0.5, told, ha="center", color="#b00020", transform=axis.transAxes)
                continue
            _scatter(axis, vectors, plane)
            _name_tasks(axis, row, plane)
        axes[0].set_xlabel(_overlap_words(row, short=True), fontsize=8)
        legend(figure, [dot(LABELS[name], colour(name), _mark(name)) for name in LABELS])
        caption = "Task vectors of the first seed, by their angles. " + _overlap_words(row)
        found.append(finish(name, caption, figure, [row]))
    return found


def _scatter(axis, vectors: dict[str, np.ndarray], plane: np.ndarray) -> None:
    start = 0
    for name, part in vectors.items():
        x, y = plane[start : start + len(part)].T
        start += len(part)
        big = name == "tasks"
        axis.scatter(x, y, s=90 if big else 8, marker=_mark(name), zorder=3 if big else 1,
                     color=colour(name), alpha=1 if big else 0.5,
                     edgecolors="black" if big else "none", linewidths=0.5)  # fmt: skip


def _name_tasks(axis, row: Row, plane: np.ndarray) -> None:
    """Write the names of the test tasks, whose vectors come last, beside their stars."""
    names = row.results["task_space"]["tasks"] if row.results else []
    for label, point in together(names, plane[len(plane) - len(names) :], np.ptp(plane, axis=0)):
        text = axis.annotate(label, point, (6, 3), textcoords="offset points", fontsize=7, zorder=4)
        text.set_path_effects([withStroke(linewidth=2, foreground="white")])


def together(
    names: list[str], points: np.ndarray, size: np.ndarray
) -> list[tuple[str, np.ndarray]]:
    """Join the names of points within a thirtieth of the panel, such as run and walk."""
    found: list[tuple[str, np.ndarray]] = []
    for name, point in zip(names, points, strict=True):
        near = [i for i, (_, p) in enumerate(found) if (np.abs(p - point) < size / 30).all()]
        if near:
            found[near[0]] = f"{found[near[0]][0]}, {name}", found[near[0]][1]
        else:
            found.append((name, point))
    return found


def _mark(name: str) -> str:
    return "*" if name == "tasks" else "o"


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


def _overlap_words(row: Row, short: bool = False) -> str:
    if row.results is None:
        return "Overlap: missing."
    found = row.results["task_space"]["overlap"]
    share = {k: np.mean([f["share"][k] for f in found]) for k in ("btd", "uniform")}
    if short:
        return (f"nearest to a test task (cosine >= {found[0]['threshold']}): btd "
                f"{100 * share['btd']:.0f} %, uniform {100 * share['uniform']:.0f} %")  # fmt: skip
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
