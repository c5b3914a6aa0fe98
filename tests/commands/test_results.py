"""Studies that are kept: their files say what the runs did, and the page and README follow them."""

import json
import shutil
from pathlib import Path

import pytest
from absl import flags
from absl.testing import flagsaver
from helpers.made_up import fill

from zsrl_jax.commands import results
from zsrl_jax.commands.paper.cells import Place, cells_of
from zsrl_jax.commands.paper.plan import write_plan
from zsrl_jax.commands.paper.studies import STUDIES
from zsrl_jax.commands.report import comparisons, peer, published, tables
from zsrl_jax.commands.report.kept import keep, load_kept
from zsrl_jax.commands.report.load import load_studies
from zsrl_jax.errors import DataError
from zsrl_jax.settings.scales import StudySize

ROOT = Path(__file__).parents[2]
SIZE = StudySize(("cheetah", "walker"), ("lra_p", "fb"), 3)  # in the paper's order


@pytest.fixture
def place(tmp_path):
    """A study of three seeds, each with its own collection."""
    place = Place(tmp_path / "runs", "laptop", SIZE)
    fill(place, "main")
    return place


def one(folder):
    (study,) = load_studies(folder)
    return study


def kept(runs, folder):
    return keep(load_studies(runs), folder)


def words(study):
    found = [*comparisons.comparisons(study), comparisons.aggregate(study), *tables.by_task(study)]
    return [[table.title, [[entry.text for entry in row] for row in table.body]] for table in found]


def test_a_kept_study_draws_the_tables_of_its_runs(place, tmp_path):
    (file,) = kept(place.out, tmp_path / "kept")
    (study,) = load_kept(tmp_path / "kept")
    assert words(study) == words(one(place.out)) and "missing" not in str(words(study))
    assert file.name == "main_laptop.json" and str(tmp_path) not in file.read_text()
    for mine, theirs in zip(study.runs(), one(place.out).runs(), strict=True):
        assert mine.results["config"] == theirs.results["config"]
        assert mine.results["versions"] == {"zsrl_jax": "1.2.3"}


def test_a_seed_that_failed_is_kept_as_failed(place, tmp_path):
    cell = next(c for c in cells_of("main", place) if c.kind == "score")
    file = cell.folder(place) / "results.json"
    results = json.loads(file.read_text())
    results["returns"] = [[[None]] * 4]
    file.write_text(json.dumps(results))
    kept(place.out, tmp_path / "kept")
    (study,) = load_kept(tmp_path / "kept")
    assert words(study) == words(one(place.out)) and "(2 of 3 seeds)" in str(words(study))


def test_studies_of_several_folders_are_one_and_what_is_kept_stays(place, tmp_path):
    half = Place(tmp_path / "half", "laptop", SIZE._replace(domains=("cheetah",)))
    shutil.copytree(place.root, half.root)
    plan = json.loads((half.root / "main.study.json").read_text())
    plan["cells"] = [cell for cell in plan["cells"] if cell["domain"] == "cheetah"]
    (half.root / "main.study.json").write_text(json.dumps(plan))
    kept(half.out, tmp_path / "kept")
    kept(place.out, tmp_path / "kept")
    (study,) = load_kept(tmp_path / "kept")
    assert words(study) == words(one(place.out))
    for cell in cells_of("main", place):
        shutil.rmtree(cell.folder(place))  # the runs are gone, the plan is there
    kept(place.out, tmp_path / "kept")
    assert words(load_kept(tmp_path / "kept")[0]) == words(study)


def test_what_is_missing_is_told_with_the_command_that_goes_on(place, tmp_path):
    cells = [c for c in cells_of("main", place) if (c.sampler, c.domain) == ("btd", "walker")]
    for cell in cells:
        shutil.rmtree(cell.folder(place))
    plan = place.root / "main.study.json"
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"commands": ["go on"]}))
    kept(place.out, tmp_path / "kept")
    page = tmp_path / "page.md"
    published.make_page(load_kept(tmp_path / "kept"), [], page, tmp_path / "figures")
    text = page.read_text()
    assert f"{len(cells)} of {len(cells_of('main', place))} runs are missing" in text
    assert "    go on\n" in text and "**cheetah**" in text and "**walker**" not in text
    assert "(figures/laptop_main.png)" in text
    assert (tmp_path / "figures" / "laptop_main.png").stat().st_size > 10_000


def test_the_sentence_has_the_study_s_numbers(place, tmp_path):
    # uniform has 140; differences 60, 60, 60 and 0, 60, 120: means 30, 60, 90, so t = 60 / 17.32
    level = {"fb": [200.0] * 3, "lra_p": [140.0, 200, 260]}
    for cell in cells_of("main", place):
        file = cell.folder(place) / "results.json"
        results = json.loads(file.read_text())
        btd = cell.kind == "score" and cell.sampler == "btd"
        value = level[cell.encoder][cell.collection] if btd else 140.0
        results["returns"] = [[[value]] * 4]
        file.write_text(json.dumps(results))
    told = published.sentences(one(place.out))[0]
    assert told.startswith("**cheetah**: ahead of uniform tasks with 2 of 2 encoders, ")
    assert "significantly with 1: behavioural tasks score 60 more than uniform ones on" in told
    assert "average over 3 seeds (95 %: -15 to 135, p = 0.074)" in told  # 4.303 x 17.32 = 74.5
    assert "1.60 times the score (0.85 to 2.35)" in told  # (140 - 40) becomes 160; 74.5 / 100
    lines = published.wrapped([f"- {told}"])
    table = published.scores_table(one(place.out), "docs/")
    assert (
        table[2]
        == "| [cheetah](docs/cheetah.md) | 40 | 50 | **200** (200 to 200) | 200 to 200 | 600 |"
    )
    assert table[-2] == "Encoder fb, behavioural tasks, 3 seeds, from starts of seed 0."
    assert max(map(len, lines)) <= 100 and " ".join(" ".join(lines).split()) == f"- {told}"


def test_the_readme_s_block_is_replaced_and_nothing_else(place, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n\n{published.BEGIN}\nold\n{published.END}\n\nafter\n")
    published.update_readme(readme, one(place.out), "docs/x.png", "docs/studies.md")
    text = readme.read_text()
    assert text.startswith(f"before\n\n{published.BEGIN}\n| of 1000 |")
    assert "\n- **cheetah**" in text and "(docs/walker.md)" in text
    assert text.endswith(f"{published.END}\n\nafter\n") and "old" not in text
    assert "(docs/x.png)" in text and "(docs/studies.md)" in text
    readme.write_text("no marks")
    with pytest.raises(DataError, match="has no marks: expected the lines '<!-- made by"):
        published.update_readme(readme, one(place.out), "x", "y")
    assert readme.read_text() == "no marks"


def line(seed, data, score):
    tasks = ["walk", "run", "walk_backward", "run_backward"]
    return {"seed": seed, "data": data, "returns": [[[score]] * 4], "minutes": 6.0, "updates": 9000,
            "start": 0, "tasks": tasks}  # fmt: skip


def test_a_peer_is_compared_on_the_same_data_alone(place):
    cells = [c for c in cells_of("main", place) if c[1:4] == ("cheetah", "fb", "btd")]
    for cell in cells:
        file = cell.folder(place) / "results.json"
        results = json.loads(file.read_text())
        results["returns"] = [[[100.0 + cell.collection]] * 4]
        results["data"]["fingerprint"] = f"data{cell.collection}"
        results["seconds"] = {"encoder": 100, "tasks": 20, "policy": 240}
        file.write_text(json.dumps(results))
    lines = peer.peer_lines(
        one(place.out),
        [
            line(0, "data0", 40.0), line(1, "data1", 51.0), line(2, "other", 9.0),
            line(2, "data2", 9.0) | {"start": 1},
        ],
    )  # fmt: skip
    assert "| 0 | 40 | 6 | 9,000 | 100 | 6.0 | 60 |" in lines
    assert "| 1 | 51 | 6 | 9,000 | 101 | 6.0 | 50 |" in lines
    assert not any("9.0" in line for line in lines)
    assert lines[-2].startswith("Mean 100 against 46, difference 55 (95 %: -9 to 119, p = 0.058)")
    assert peer.peer_lines(one(place.out), []) == []


def test_a_file_that_is_no_kept_study_is_one_clear_line(tmp_path):
    (tmp_path / "main_laptop.json").write_text("[]")
    with pytest.raises(DataError, match=r"main_laptop.json' is no study that was kept"):
        load_kept(tmp_path)
    (tmp_path / "main_laptop.json").write_text("{")
    with pytest.raises(DataError, match=r"is damaged: expected one that `results RUNS` wrote"):
        load_kept(tmp_path)
    (tmp_path / "main_laptop.json").write_text(json.dumps({"name": "man", "cells": [1]}))
    with pytest.raises(DataError, match=r"is no study that was kept"):
        load_kept(tmp_path)
    (tmp_path / "peer.jsonl").write_text(json.dumps({"seed": 0, "data": "x"}))
    with pytest.raises(DataError, match=r"peer.jsonl' is damaged \(KeyError: 'start'\)"):
        peer.read_peer(tmp_path)


def test_the_project_s_page_and_readme_are_those_of_its_kept_studies(tmp_path):
    kept, page = ROOT / "docs/results/studies", tmp_path / "docs/results/studies.md"
    page.parent.mkdir(parents=True)
    studies = load_kept(kept)
    sections = published.make_page(studies, peer.read_peer(kept), page, tmp_path / "docs/figures")
    assert page.read_text() == (ROOT / "docs/results/studies.md").read_text()
    for section in sections:
        for chart in section.charts:
            assert (ROOT / "docs/figures" / f"{chart.name}.png").is_file()
    readme = tmp_path / "README.md"
    shutil.copy(ROOT / "README.md", readme)
    main = published.main_of(studies)
    place = "docs/figures/laptop_main.png", "docs/results/studies.md"
    published.update_readme(readme, main, *place)
    assert readme.read_text() == (ROOT / "README.md").read_text()


def test_cells_are_named_by_the_settings_that_differ(tmp_path):
    place = Place(tmp_path, "laptop", StudySize((), ("fb",), 2))
    fill(place, "settings", "dimension")
    dimension, settings = sorted(load_studies(tmp_path), key=lambda study: study.name)
    assert [pair.encoder for pair in comparisons.pairs_of(settings, "btd")] == [
        "fb", "fb, center False", "fb, nearest 100", "fb, way_back True, learning_rate 0.001",
    ]  # fmt: skip
    first = dimension.rows[0]
    assert "encoder.hidden" in first.fields and dimension.settings_of(first) == []
    labels = [pair.encoder for pair in comparisons.pairs_of(dimension, "btd")]
    assert labels == [f"fb, dim {d}" for d in (50, 100, 250, 500, 1000)]


def test_runs_of_other_settings_are_never_mixed(place, tmp_path):
    """Nor seeds repeated; nothing is written then, of the other studies neither."""
    kept(place.out, tmp_path / "kept")
    before = (tmp_path / "kept" / "main_laptop.json").read_text()
    shorter = Place(tmp_path / "short", "laptop", SIZE, (("policy.updates", 5000),))
    fill(shorter, "alpha", "main")
    with pytest.raises(
        DataError, match=r"other settings: policy.updates was 40000, now 5000; keep"
    ):
        kept(shorter.out, tmp_path / "kept")
    again = Place(tmp_path / "six", "laptop", SIZE._replace(seeds=6, collections=3))
    fill(again, "main")
    with pytest.raises(
        DataError, match=r"cheetah lra_p uniform has runs of other settings: seeds was 1"
    ):
        kept(again.out, tmp_path / "kept")
    assert (tmp_path / "kept" / "main_laptop.json").read_text() == before
    assert [file.name for file in (tmp_path / "kept").iterdir()] == ["main_laptop.json"]


def test_a_seed_is_kept_once(place, tmp_path):
    moved = Place(tmp_path / "moved", "laptop", SIZE, (("seed", 1),))
    fill(moved, "main")
    plan = json.loads((moved.root / "main.study.json").read_text())
    plan["cells"] = [cell | {"collection": cell["collection"] + 7} for cell in plan["cells"]]
    (moved.root / "main.study.json").write_text(json.dumps(plan))
    kept(place.out, tmp_path / "kept")
    with pytest.raises(DataError, match=r"has seeds \[1, 2\] in several collections"):
        kept(moved.out, tmp_path / "kept")


def test_what_has_no_scores_or_says_nothing_is_not_kept(tmp_path):
    fill(Place(tmp_path / "runs", "laptop", SIZE), "dilution", "task_space")
    fill(Place(tmp_path / "runs", "smoke", SIZE), "main")
    assert kept(tmp_path / "runs", tmp_path / "kept") == []
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("name", STUDIES)
def test_a_plan_that_is_written_twice_is_the_same(name, tmp_path):
    place = Place(tmp_path, "laptop", StudySize((), ("fb",), 2))
    once = json.loads(write_plan(name, cells_of(name, place), place).read_text())
    assert json.loads(write_plan(name, cells_of(name, place), place).read_text()) == once


def test_one_seed_is_told_as_one(tmp_path):
    place = Place(tmp_path, "laptop", StudySize(("cheetah",), ("fb",), 1))
    fill(place, "main")
    (told,) = published.sentences(one(tmp_path))
    assert told.startswith("**cheetah**: with fb: behavioural tasks score")
    assert told.endswith("uniform ones on average over 1 seed.")


def test_collections_of_several_seeds_and_unfinished_encoders_are_told(tmp_path):
    place = Place(tmp_path, "laptop", StudySize(("cheetah",), ("fb", "lra_p"), 6, 3))
    fill(place, "main")
    assert "over 3 collections" in published.sentences(one(tmp_path))[0]
    cells = [c for c in cells_of("main", place) if c.encoder == "lra_p"]

    def lose(collection):
        for cell in cells:
            if cell.collection == collection:
                (cell.folder(place) / "results.json").unlink()
        return published.sentences(one(tmp_path))[0]

    told = lose(2)
    assert "of 2 encoders" in told and "over 2 collections" in told and "left out" not in told
    told = lose(1)
    assert "with fb, not significant: " in told and "over 3 collections" in told
    assert told.endswith("1 encoder with few seeds so far left out.")


def test_the_command_keeps_draws_and_rewrites(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("a user's own, without marks")
    flags.FLAGS(["results"])
    with flagsaver.flagsaver(folder="kept", pictures="pictures"):
        results.main(["results", str(place.out)])
        assert (tmp_path / "README.md").read_text() == "a user's own, without marks"
    assert "(../pictures/laptop_main.png)" in (tmp_path / "kept/studies.md").read_text()
    shutil.rmtree(tmp_path / "kept")
    with flagsaver.flagsaver(folder="kept", readme="README.md"):
        with pytest.raises(DataError, match="has no marks"):
            results.main(["results", str(place.out)])
        with pytest.raises(DataError, match="no study in 'pictures'"):
            (tmp_path / "README.md").write_text(f"{published.BEGIN}\n{published.END}\n")
            results.main(["results", "pictures"])
    with pytest.raises(DataError, match="folder 'nowhere' does not exist"):
        results.main(["results", "nowhere"])
    assert not (tmp_path / "kept").exists()  # bad input leaves nothing half-written
    with flagsaver.flagsaver(folder="kept", pictures="pictures"):
        results.main(["results", str(place.out)])
    assert (
        "![uniform and behavioural tasks, by encoder](pictures/laptop_main.png)"
        in (tmp_path / "README.md").read_text()
    )
