"""A tiny study end to end: a shared encoder, a job, figures, the page, what is missing."""

import json
import re
import shutil

import numpy as np
import pytest

from zsrl_jax.analysis import encoder_studies, geometry
from zsrl_jax.commands.paper import jobs, work
from zsrl_jax.commands.paper.cells import Place, cells_of
from zsrl_jax.commands.paper.jobs import Jobs, run_jobs
from zsrl_jax.commands.paper.launch import run_here, waves
from zsrl_jax.commands.paper.plan import write_plan
from zsrl_jax.commands.paper.progress import Progress
from zsrl_jax.commands.report import curves, figures, markdown, page
from zsrl_jax.commands.report.load import load_runs, load_studies
from zsrl_jax.commands.report.studies import all_runs, make_section
from zsrl_jax.commands.report.tables import MISSING
from zsrl_jax.errors import DataError
from zsrl_jax.settings.scales import StudySize
from zsrl_jax.types import Failure

pytestmark = pytest.mark.whole

FIELDS = (
    ("log_every", 2), ("encoder.updates", 4), ("encoder.dim", 4), ("policy.updates", 4),
    ("tasks.num_subtrajectories", 200), ("tasks.num_iters", 5), ("evaluate.episodes", 1),
    ("evaluate.every", 2), ("data.episodes", 2),
)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two studies: dilution whole, components with one cell done here and one missing."""
    root = tmp_path_factory.mktemp("paper")
    fields = (*FIELDS, ("data.cache", str(root / "data")))
    place = Place(root / "out", "smoke", StudySize(("cheetah",), ("fb",), 1), fields)
    plans = {name: cells_of(name, place) for name in ("dilution", "components")}
    for name, cells in plans.items():
        write_plan(name, cells, place)
    encoders, rest = waves([plans["dilution"][0], plans["components"][1]])
    bar = Progress([*encoders, *rest], [], place)
    assert run_here([*encoders, *rest], place, bar) == {}
    bar.close()
    assert bar.bar.n == bar.bar.total  # every cell is counted to its end
    return place


def test_a_cell_starts_from_its_shared_encoder(place):
    cell = cells_of("components", place)[1]
    shared = cell.encoder_cell().folder(place) / "encoder"
    own = cell.folder(place) / "encoder"
    files = [f.relative_to(shared) for f in shared.rglob("*") if f.is_file()]
    assert files and all((shared / f).samefile(own / f) for f in files)
    lines = (cell.folder(place) / "metrics.jsonl").read_text()
    assert "encoder/loss" in lines and "policy/q" in lines and "tasks/unseen_log" in lines


def test_done_cells_are_skipped_and_a_job_completes_the_rest(place):
    cells = cells_of("dilution", place)
    done, left = cells
    before = (done.folder(place) / "results.json").stat().st_mtime_ns
    assert done.is_done(place) and not left.is_done(place)
    how = Jobs("local", 1, {"timeout_min": 30})
    encoders, rest = waves([left])
    bar = Progress([*encoders, *cells], [done], place)
    assert run_jobs([*encoders, *rest], place, bar, how) == {}
    bar.close()
    assert left.is_done(place)
    assert (done.folder(place) / "results.json").stat().st_mtime_ns == before


def test_uniform_tasks_obey_the_proposition(place):
    found = json.loads((cells_of("dilution", place)[0].folder(place) / "results.json").read_text())
    measured = found["dilution"]
    np.testing.assert_allclose(measured["variance"]["uniform"], measured["trace"], rtol=0.1)


def test_the_space_of_tasks_has_the_regressions_z(place):
    nearest = place._replace(fields=(*place.fields, ("infer.nearest", 1), ("infer.behaviours", 2)))
    (cell,) = cells_of("task_space", nearest)
    folder = work.do(cell, nearest)
    with np.load(folder / "vectors.npz") as found:
        tasks, data = geometry.unit(found["tasks"][0]), geometry.unit(found["subtraj"][0])
    assert len(tasks) == 4 and ((tasks @ data.T).max(axis=1) < 1 - 1e-6).all()  # no copy of data's
    measured = json.loads((folder / "results.json").read_text())["task_space"]
    assert len(measured["overlap"]) == 1
    shutil.rmtree(folder)


def test_the_report_stands_alone_and_shows_what_is_missing(place, tmp_path):
    studies = load_studies(place.out)
    assert [s.name for s in studies] == ["components", "dilution"]
    sections = [make_section(study) for study in studies]
    runs = all_runs(sections, load_runs(place.out))
    for section in sections:
        for chart in section.charts:
            files = figures.save(chart, tmp_path / "figures")
            assert [f.suffix for f in files] == [".png", ".pdf"]
            said = "\n".join(text.get_text() for text in chart.figure.texts)
            assert "scale: smoke" in said and "collected by ourselves" in said
    html = page.make_html("t", sections, [], runs, tmp_path)
    assert not re.search(r'(src|href)="(?!data:|#|\.\.)', html)  # nothing from elsewhere
    linked, there = (
        set(re.findall(r'href="#(run-[^"]*)"', html)),
        re.findall(r'id="(run-[^"]*)"', html),
    )
    assert linked and linked <= set(there)
    assert MISSING in html and "2 of 3 cells are missing" in html  # one, and the oracle
    assert "python -m experiments.run --config=configs/cell.py:cheetah,fb,btd,smoke" in html
    text = markdown.make_markdown("t", sections, [], runs, tmp_path)
    assert "## dilution (smoke scale)" in text and MISSING in text
    for picture in re.findall(r"\]\((figures/[^)]*)\)", text):
        assert (tmp_path / picture).exists()
    figures.close([chart for section in sections for chart in section.charts])


def test_curves_are_drawn_of_runs_scored_during_training(place, tmp_path):
    folder = cells_of("components", place)[1].folder(place)
    points = curves.read_points(folder)
    assert [step for step, _ in points] == [2, 4]
    chart = curves.draw([place.out])
    drawn = chart.figure.axes[0].get_lines()[0]
    np.testing.assert_array_equal(drawn.get_xdata(), [2, 4])
    figures.close([chart])
    shutil.copytree(folder, tmp_path / "cut" / "off")
    (tmp_path / "cut" / "off" / "results.json").unlink()
    chart = curves.draw([tmp_path / "cut"])  # of a run that was cut off
    said = chart.figure.texts[0].get_text()
    assert "scale: smoke" in said and "collected by ourselves" in said and "1 of 1 runs unf" in said
    assert chart.figure.axes[0].get_title() == "cheetah"
    figures.close([chart])
    shutil.rmtree(tmp_path / "cut")
    with pytest.raises(DataError, match="evaluate.every"):
        curves.draw([tmp_path])


def test_a_seed_whose_encoder_failed_is_not_measured(place, monkeypatch, tmp_path):
    pair = place._replace(out=tmp_path, size=StudySize(("cheetah",), ("fb",), 2))
    cells = [cells_of(name, pair)[0] for name in ("dilution", "task_space")]
    whole = json.loads((work.do(cells[0], pair) / "results.json").read_text())
    (tmp_path / "smoke" / "dilution").rename(tmp_path / "whole")
    encode = encoder_studies.encode

    def first_fails(run, dataset):
        run.failed[0] = Failure(0, "encoder", 3, "encoder/loss", 2)
        return encode(run, dataset)

    monkeypatch.setattr(encoder_studies, "encode", first_fails)
    cut, near = (json.loads((work.do(c, pair) / "results.json").read_text()) for c in cells)
    assert [f["quantity"] for f in cut["failed"]] == ["encoder/loss"] and whole["failed"] == []
    write_plan("dilution", cells[:1], pair)
    section = make_section(load_studies(tmp_path / "smoke")[0])
    assert "1 seeds failed" in section.charts[0].figure.texts[0].get_text()
    figures.close(section.charts)
    assert cut["dilution"]["trace"] == whole["dilution"]["trace"][1:]
    assert cut["dilution"]["variance"]["btd"] == whole["dilution"]["variance"]["btd"][1:]
    assert len(near["task_space"]["overlap"]) == 1
    with np.load(cells[1].folder(pair) / "vectors.npz") as found:
        assert {len(found[name]) for name in found} == {1}


def test_studies_of_folders_with_one_name_stay_apart(place, tmp_path):
    other = tmp_path / place.out.name
    shutil.copytree(place.root, other / "smoke", ignore=shutil.ignore_patterns("encoders"))
    studies = load_studies(place.out, other, other / "smoke")  # the last are known already
    name = place.out.name
    assert [s.place for s in studies] == [f"{name}/smoke"] * 2 + [f"{name}-2/smoke"] * 2


def test_a_cell_that_fails_is_told_and_the_others_go_on(place):
    good = cells_of("components", place)[1]
    bad = good._replace(fields=(("policy.per_task", 0),))
    bar = Progress([bad, good], [], place)
    failed = run_here([bad, good], place, bar)
    bar.close()
    assert list(failed) == [bad] and "policy.per_task" in failed[bad]
    shutil.rmtree(bad.folder(place), ignore_errors=True)


def test_a_preempted_job_is_the_same_job_again(place):
    cell = cells_of("components", place)[1]
    again = jobs.Job(cell, place).checkpoint().function
    assert (again.cell, again.place) == (cell, place)
