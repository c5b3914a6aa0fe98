"""Charts and tables of studies at full size: nothing hides anything, numbers lead to their runs."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from helpers.made_up import fill
from matplotlib.colors import to_hex

from zsrl_jax.analysis.statistics import improvement
from zsrl_jax.commands.paper.cells import Place, cells_of
from zsrl_jax.commands.paper.plan import write_plan
from zsrl_jax.commands.paper.studies import STUDIES
from zsrl_jax.commands.report import charts, comparisons, figures, lines, measures, tables
from zsrl_jax.commands.report.load import load_runs, load_study
from zsrl_jax.commands.report.markdown import write_study
from zsrl_jax.commands.report.page import make_html
from zsrl_jax.commands.report.studies import all_runs, loose_runs, make_section
from zsrl_jax.settings.scales import StudySize


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("made_up"), "paper")
    fill(place, *STUDIES)
    return place


def change(place, cell, **fields):
    file = cell.folder(place) / "results.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


@pytest.fixture(scope="module")
def laptop(tmp_path_factory):
    """One narrow panel a chart, and more to say below it: seeds that failed."""
    place = Place(tmp_path_factory.mktemp("laptop"), "laptop")
    fill(place, *STUDIES)
    for cell in dict.fromkeys(cell for name in STUDIES for cell in cells_of(name, place)):
        found = json.loads((cell.folder(place) / "results.json").read_text())
        if cell.collection == 0:
            if "returns" in found:
                found["returns"][0] = [[None]] * len(found["tasks"])
            found["failed"] = [{}]
        change(place, cell, **({"failed": []} | found))
    return place


@pytest.mark.parametrize("scale", ["paper", "laptop"])
@pytest.mark.parametrize("name", STUDIES)
def test_legends_stamps_and_panels_stand_apart(place, laptop, name, scale, monkeypatch):
    monkeypatch.setattr(measures, "_umap", measures._pca)  # it takes a minute to compile
    root = {"paper": place, "laptop": laptop}[scale].root
    section = make_section(load_study(root / f"{name}.study.json"))
    said = section.charts[0].figure.texts[0].get_text()
    assert f"scale: {scale}" in said and ("seeds failed" in said) == (scale == "laptop")
    for chart in section.charts[:2]:
        chart.figure.draw_without_rendering()
        boxes = [axis.get_tightbbox() for axis in chart.figure.axes]
        (legend,) = (each.get_window_extent() for each in chart.figure.legends)
        (stamp,) = (text.get_window_extent() for text in chart.figure.texts)
        whole = chart.figure.bbox
        for box in (legend, stamp):
            assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 <= box.y1
            assert box.y1 <= whole.y1
            assert not any(box.overlaps(other) for other in boxes)
    figures.close(section.charts)


def test_names_of_tasks_in_one_place_are_joined():
    points = np.array([[0.0, 0], [5, 5], [0.1, 0]])
    found = measures.together(["walk", "flip", "run"], points, np.array([10.0, 10]))
    assert [name for name, _ in found] == ["walk, run", "flip"]


def test_a_study_writes_its_tables_beside_its_figures(place, tmp_path):
    section, files = write_study(place.root / "main.study.json", tmp_path)
    names = {file.name for file in files}
    assert names == {f"main{x}.{kind}" for x in ("", "_profiles") for kind in ("png", "pdf")} | {
        "main.md"
    }
    text = (tmp_path / "main.md").read_text()
    assert "btd against uniform: " in text and "](main.png)" in text
    assert "| fb | btd |" in text and "oracle (TD3 on the reward, 1,000,000 updates)" in text
    shown = tables.as_text(section.tables[0]).splitlines()
    assert len(shown) == 2 + 3 * 7 + 1 and shown[1].startswith("domain     encoder")


def test_every_score_leads_to_its_run(place, tmp_path):
    section = make_section(load_study(place.root / "main.study.json"))
    comparison, aggregate, cheetah, *_ = section.tables
    assert all(row[2].folder and row[3].folder for row in comparison.body[:-1])
    assert all(len(row[-1].folders) == 7 for row in aggregate.body)
    assert all(entry.folder for row in cheetah.body for entry in row[2:])  # the random policy's too
    html = make_html("t", [section], [], [], tmp_path)
    assert html.count('title="cheetah_fb_btd-seeds5"') == 1
    figures.close(section.charts)


def test_seeds_are_paired_by_their_number_and_lost_ones_told(place, tmp_path):
    uniform, btd = (c for c in cells_of("main", place) if c.domain == "cheetah"
                    and c.encoder == "fb")  # fmt: skip
    folder = tmp_path / "paper"
    shutil.copytree(place.root, folder)
    copied = place._replace(out=tmp_path)
    lost = [[None]] * 4
    low, high = [[100.0]] * 4, [[500.0]] * 4
    change(copied, uniform, returns=[lost, low, high, low, high])
    change(copied, btd, returns=[low, low, high, low, lost])
    study = load_study(folder / "main.study.json")
    row = next(row for row in comparisons.comparison(study, "btd").body if row[1].text == "fb")
    assert [e.text for e in row[-2:]] == [
        "0.50",
        "3",
    ]  # seeds 1, 2, 3 are equal; side by side from the top they are not
    assert improvement(np.array([[1.0], [1], [5], [1]]), np.array([[1.0], [5], [1], [5]])) != 0.5
    assert tables.by_task(study)[0].body[12][-1].text == "cheetah_fb_uniform-seeds5 (4 of 5 seeds)"
    section = make_section(study)
    assert "2 seeds failed" in section.charts[0].figure.texts[0].get_text()
    figures.close(section.charts)


def test_bars_have_the_means_of_their_runs_in_their_samplers_colour(place):
    study = load_study(place.root / "main.study.json")
    chart = charts.bars(study)
    drawn = {to_hex(b.get_facecolor()): [] for b in chart.figure.axes[0].patches}
    for bar in chart.figure.axes[0].patches:
        drawn[to_hex(bar.get_facecolor())].append(bar.get_height())
    for sampler in ("uniform", "btd"):
        rows = study.pick(domain="cheetah", sampler=sampler)
        expected = [np.mean(row.results["returns"]) for row in rows]
        np.testing.assert_allclose(drawn[figures.colour(sampler)], expected)
    figures.close([chart])


def compared(place, levels):
    """Give every seed of a cell of `main` its level in all tasks, and return the comparison."""
    for cell in cells_of("main", place):
        if cell.kind == "score":
            change(place, cell, returns=[[[x]] * 4 for x in levels(cell)])
    study = load_study(place.root / "main.study.json")
    return comparisons.comparison(study, "btd"), study


def test_differences_tests_and_ratios_are_those_of_the_scores(place, tmp_path):
    copied = place._replace(out=tmp_path)
    shutil.copytree(place.root, copied.root)

    def levels(cell):  # the random policy has 40
        base = [99.0, 100.0, 100.0, 100.0, 101.0]
        if cell.encoder == "aenc":
            return [30.0] * 5  # both alike, and uniform below random
        if cell.encoder == "trans":  # differences 0, 100, 0, 100, 50: mean 50, error sqrt(500)
            return [100.0, 200, 100, 200, 150] if cell.sampler == "btd" else [100.0] * 5
        return [x + 60 for x in base] if cell.sampler == "btd" else base

    table, _ = compared(copied, levels)
    assert "btd against uniform: 15 wins, 0 losses, 6 undecided (paper" in table.title
    assert "Holm's correction over the study's cells (21)" in table.title
    assert "undefined in 3 of 21 cells" in table.title
    assert "seeds: 5; collections: 1; encoder updates:" in table.title
    row = {row[1].text: [entry.text for entry in row] for row in table.body}
    # t = 50 / sqrt(500) = 2.236, of which p is 0.0890 with 4 degrees; 2.776 sqrt(500) = 62.1;
    # six cells are left after the fifteen smaller p
    assert row["trans"][4:9] == ["50.0", "-12.1 to 112.1", "0.089", "0.534", "undecided"]
    assert row["trans"][9:11] == ["1.83", "0.80 to 2.87"]
    assert row["aenc"][4:11] == ["0.0", "0.0 to 0.0", "1.000", "1.000", "undecided",
                                 "undefined", "undefined"]  # fmt: skip
    assert row["fb"][4:9] == ["60.0", "60.0 to 60.0", "< 0.001", "< 0.001", "win"]
    assert row["fb"][9:] == ["2.00", "1.99 to 2.01", "1.00", "5"]
    # all: differences 3 x (0, 50, 60 five times) / 21; ratios of sums, not a mean of ratios
    whole = table.body[-1]
    assert whole[1].text == "21 cells" and whole[4].value == pytest.approx(350 / 7)
    assert whole[9].value == pytest.approx((110 + 5 * 120 - 10) / (60 + 5 * 60 - 10))


def test_samplers_are_compared_at_each_point_and_variant_of_a_study(place):
    tabled = make_section(load_study(place.root / "dimension.study.json"))
    labels = [row[1].text for row in tabled.tables[0].body]
    assert labels[:2] == ["aenc, dim 50", "aenc, dim 100"] and len(labels) == 3 * 7 * 6 + 1
    study = load_study(place.root / "samplers.study.json")
    found = comparisons.comparisons(study)
    assert [table.head[3] for table in found] == study.names("sampler")[1:]
    for table in found:  # five samplers, two forms of the reward, three domains
        assert "over the study's cells (30)" in table.title and len(table.body) == 6 + 1
    assert found[0].body[1][1].text == "fb, center_reward False"
    assert comparisons.comparisons(load_study(place.root / "alpha.study.json")) == []
    figures.close(tabled.charts)


def test_a_lone_seed_is_never_a_win_and_has_no_interval(tmp_path):
    place = Place(tmp_path, "smoke", StudySize((), (), 1))
    fill(place, "main", "spread")
    table, study = compared(place, lambda cell: [900.0 if cell.sampler == "btd" else 100.0])
    assert "0 wins, 0 losses, 0 undecided, 2 of one seed" in table.title
    told = [entry.text for entry in table.body[0]]
    assert told[5] == told[8] == told[10] == "one seed" and told[6:8] == ["", ""]
    assert comparisons.aggregate(study).body[0][3].text == "one seed"
    assert "all seeds share one collection" in comparisons.variance_note(study)


def test_lost_encoders_are_told(tmp_path):
    place = Place(tmp_path, "smoke")
    fill(place, "main", "spread")
    lost = next(cell for cell in cells_of("main", place) if cell.sampler == "btd")
    (lost.folder(place) / "results.json").unlink()
    study = load_study(place.root / "main.study.json")
    assert "1 missing" in comparisons.comparison(study, "btd").title
    for chart in (charts.profiles(study), charts.boxes(study)):
        said = [text.get_text() for text in chart.figure.axes[0].texts]
        assert any("1 of 2" in text for text in said)
        figures.close([chart])


def test_collections_of_a_cell_are_one_row_and_its_units(tmp_path):
    place = Place(tmp_path, "smoke", StudySize((), ("fb",), 4, 2))
    fill(place, "main")
    value = {0: [100.0, 120.0], 1: [200.0, 220.0]}
    table, study = compared(
        place, lambda cell: [x + 10 * (cell.sampler == "btd") for x in value[cell.collection]]
    )
    uniform = study.pick(sampler="uniform")[0]
    assert len(study.rows) == 3 and len(study.runs()) == 6 and not study.missing()
    assert uniform.results["seeds"] == [0, 1, 2, 3] and uniform.units() == [0, 0, 1, 1]
    # collections' means 110 and 210: t(0.975, 1) = 12.706 errors of 50
    np.testing.assert_allclose(uniform.interval(), (160, 160 - 635.3, 160 + 635.3), atol=0.1)
    assert table.body[0][-1].text == "2" and len(table.body[0][2].folders) == 2
    # within: variance 200 each; between: (2 x 2 x 50^2 - 200) / 2 = 4900
    note = comparisons.variance_note(study)
    assert "96 % comes from data (deviation 70.0 between" in note
    assert (
        "4 % from training (deviation 14.1 within one); a mean over 2 cells of 2 collections"
        in note
    )
    section = make_section(study)
    assert section.notes == (note,)
    for chart in section.charts:
        assert "seeds: 4 · collections: 2 ·" in chart.figure.texts[0].get_text()
    html = make_html("t", [section], [], all_runs([section], []), tmp_path)
    assert set(re.findall(r'href="#(run-[^"]*)"', html)) == set(
        re.findall(r'id="(run-[^"]*)"', html)
    )
    figures.close(section.charts)


def test_a_collection_that_is_missing_takes_only_its_seeds(tmp_path):
    place = Place(tmp_path, "smoke", StudySize((), ("fb",), 3, 3))
    fill(place, "main", "dilution", "task_space")
    lost = next(c for c in cells_of("main", place) if c.sampler == "btd" and c.collection == 1)
    (lost.folder(place) / "results.json").unlink()
    study = load_study(place.root / "main.study.json")
    (row,) = study.pick(sampler="btd")
    assert list(row.by_seed()) == [0, 2] and row.units() == [0, 2]
    (missing,) = study.missing()
    assert missing.folder == lost.folder(place)
    assert {"--config.seed=1", "--config.data.seed=1"} <= set(missing.command.split())
    assert comparisons.comparison(study, "btd").body[0][-1].text == "2"
    assert tables.by_task(study)[0].body[1][-1].text == "2 of 3 collections"
    assert "a collection has one seed" in comparisons.variance_note(study)
    found = load_study(place.root / "dilution.study.json").rows[0].results["dilution"]
    assert [len(found["trace"]), len(found["variance"]["btd"])] == [3, 3]
    found = load_study(place.root / "task_space.study.json").rows[0].results["task_space"]
    assert len(found["overlap"]) == 3 and len(found["tasks"]) == 4


def test_a_study_of_an_earlier_version_is_read(tmp_path):
    place = Place(tmp_path, "laptop", StudySize((), (), 3, 1))  # as it was then
    fill(place, "main")
    file = place.root / "main.study.json"
    plan = json.loads(file.read_text())
    for cell in plan["cells"]:
        assert cell.pop("collection") is None
    file.write_text(json.dumps(plan))
    study = load_study(file)
    assert not study.missing() and len(study.rows) == 15
    assert "seeds: 3; collections: 1" in comparisons.comparison(study, "btd").title


def test_results_of_other_settings_are_missing(tmp_path):
    place = Place(tmp_path, "smoke")
    fill(place, "components")
    longer = place._replace(fields=(("policy.updates", 77),))
    file = write_plan("components", cells_of("components", longer), longer)
    study = load_study(file)
    assert len(study.missing()) == len(study.rows)
    assert all("--config.policy.updates=77" in row.command for row in study.missing())


def test_the_chart_of_components_names_every_line(place):
    (chart,) = make_section(load_study(place.root / "components.study.json")).charts
    told = [text.get_text() for text in chart.figure.legends[0].get_texts()]
    assert {"oracle\n1,000,000 updates", "random policy", "likelihood (right)"} <= set(told)
    figures.close([chart])


def test_the_likelihood_is_of_the_seeds_that_have_a_score(tmp_path):
    place = Place(tmp_path, "smoke")
    fill(place, "components")
    cell = cells_of("components", place)[0]
    line = {"step": 1, "tasks/unseen_log_likelihood": [3.0, "nan"]}
    (cell.folder(place) / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    change(place, cell, returns=[[[5.0]] * 4, [[None]] * 4])
    row = load_study(place.root / "components.study.json").rows[0]
    assert lines.unseen_likelihood(row) == 3.0
    assert lines.unseen_likelihood(row._replace(results=None)) is None


def test_samplers_of_two_encoders_are_drawn_apart(tmp_path):
    place = Place(tmp_path, "smoke", StudySize((), ("fb", "lra_p"), 2))
    fill(place, "samplers")
    section = make_section(load_study(place.root / "samplers.study.json"))
    assert [chart.name for chart in section.charts] == ["samplers_fb", "samplers_lra_p"]
    assert [len(chart.figure.axes[0].patches) for chart in section.charts] == [6, 6]
    for table, encoder in zip(section.tables, ("fb", "lra_p"), strict=False):
        assert f"on {encoder} features" in table.title
        assert all(encoder in entry.folder.name for row in table.body for entry in row[1:3])
    figures.close(section.charts)


def test_an_encoder_that_lost_seeds_takes_none_from_the_others(tmp_path):
    place = Place(tmp_path, "smoke")
    fill(place, "main")
    for cell in cells_of("main", place):
        lost = cell.encoder == "fb" and cell.sampler == "btd"
        level = 10.0 if cell.encoder == "fb" else 20.0
        change(place, cell, returns=[[[None if lost else level]] * 4, [[level]] * 4])
    study = load_study(place.root / "main.study.json")
    means = {row[1].text: row[4].value for row in comparisons.aggregate(study).body}
    assert means["uniform"] == 15.0 and means["btd"] == pytest.approx((10 + 20 + 20) / 3)


def test_runs_of_no_study_have_a_table_of_their_own(place, tmp_path):
    btd, oracle = (tmp_path / name for name in ("mine", "oracle"))
    cells = {cell.name: cell for cell in cells_of("main", place)}
    shutil.copytree(cells["walker_fb_btd-seeds5"].folder(place), btd)
    shutil.copytree(cells["walker_oracle_all-seeds5"].folder(place), oracle)
    found = json.loads((oracle / "results.json").read_text())  # an oracle of the second task alone
    one = found | {"tasks": found["tasks"][1:2], "returns": [x[1:2] for x in found["returns"]]}
    (oracle / "results.json").write_text(json.dumps(one))
    study = make_section(load_study(place.root / "samplers.study.json"))
    figures.close(study.charts)
    (section,) = loose_runs([study], load_runs(tmp_path))
    figures.close(section.charts)
    table = section.tables[0]
    mine, chance, ideal = table.body
    assert mine[-1].text == "mine" and chance[0].text == "random policy"
    score = float(np.mean([x[1] for x in found["returns"]]))
    assert ideal[2].text == "missing" and ideal[3].value == pytest.approx(score)
    assert loose_runs([section], load_runs(tmp_path)) == []
    one["config"]["domain"] = "quadruped"  # of a domain that no other run is of
    (oracle / "results.json").write_text(json.dumps(one))
    nowhere = found | {"tasks": [], "returns": [], "random": []}  # of data without a simulator
    (btd / "results.json").write_text(json.dumps(nowhere))
    (section,) = loose_runs([study], load_runs(tmp_path))
    figures.close(section.charts)
    assert [e.text for e in section.tables[0].body[0]][-1] == "oracle"


def test_a_report_of_two_scales_keeps_both(tmp_path):
    fill(Place(tmp_path / "a", "smoke"), "subtrajectories", "alpha")
    fill(Place(tmp_path / "b", "laptop"), "alpha")
    call = [sys.executable, "-m", "experiments.report", tmp_path / "a", tmp_path / "b"]
    out = tmp_path / "report"
    done = subprocess.run([*call, f"--out={out}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "3 studies" in done.stdout
    for file in ("a/smoke/alpha.png", "a/smoke/subtrajectories.pdf", "b/laptop/alpha.png"):
        assert (out / "figures" / file).exists()
    text = (out / "report.md").read_text()
    assert "](figures/a/smoke/alpha.png)" in text and "](figures/b/laptop/alpha.png)" in text
    assert text.index("## alpha (smoke") < text.index("## subtrajectories (smoke")


def test_the_paper_s_encoders_and_the_rest_are_shown_apart(tmp_path):
    place = Place(tmp_path, "smoke", StudySize(("cheetah",), ("fb", "hilp", "lra_p", "icm"), 2))
    fill(place, "main")
    section = make_section(load_study(place.root / "main.study.json"))
    assert [c.name for c in section.charts] == [
        "main_paper", "main_profiles_paper", "main_other", "main_profiles_other"
    ]  # fmt: skip
    titles = [t.title for t in section.tables]
    assert sum(t.startswith("The paper's encoders: cheetah") for t in titles) == 1
    others = next(t for t in section.tables if t.title.startswith("Other encoders: cheetah"))
    shown = {row[0].text for row in others.body}
    assert {"hilp", "icm"} <= shown and not {"fb", "lra_p"} & shown
