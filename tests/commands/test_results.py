"""Studies that are kept: their files say what the runs did, and the page and README follow them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.made_up import fill

from zsrl_jax.commands.paper.cells import Place, cells_of
from zsrl_jax.commands.report import comparisons, published, tables
from zsrl_jax.commands.report.kept import keep, load_kept
from zsrl_jax.commands.report.load import load_studies
from zsrl_jax.errors import DataError
from zsrl_jax.settings.scales import StudySize

ROOT = Path(__file__).parents[2]
SIZE = StudySize(("cheetah", "walker"), ("fb", "lra_p"), 3)


@pytest.fixture
def place(tmp_path):
    """A study of three seeds, each with its own collection."""
    place = Place(tmp_path / "runs", "laptop", SIZE)
    fill(place, "main")
    return place


def one(folder):
    (study,) = load_studies(folder)
    return study


def words(study):
    found = [*comparisons.comparisons(study), comparisons.aggregate(study), *tables.by_task(study)]
    return [[table.title, [[entry.text for entry in row] for row in table.body]] for table in found]


def test_a_kept_study_draws_the_tables_of_its_runs(place, tmp_path):
    file = keep(one(place.out), tmp_path / "kept")
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
    keep(one(place.out), tmp_path / "kept")
    (study,) = load_kept(tmp_path / "kept")
    assert words(study) == words(one(place.out)) and "(2 of 3 seeds)" in str(words(study))


def test_studies_of_several_folders_are_one_and_what_is_kept_stays(place, tmp_path):
    half = Place(tmp_path / "half", "laptop", SIZE._replace(domains=("cheetah",)))
    shutil.copytree(place.root, half.root)
    plan = json.loads((half.root / "main.study.json").read_text())
    plan["cells"] = [cell for cell in plan["cells"] if cell["domain"] == "cheetah"]
    (half.root / "main.study.json").write_text(json.dumps(plan))
    keep(one(half.out), tmp_path / "kept")
    keep(one(place.out), tmp_path / "kept")
    (study,) = load_kept(tmp_path / "kept")
    assert words(study) == words(one(place.out))
    for cell in cells_of("main", place):
        shutil.rmtree(cell.folder(place))  # the runs are gone, the plan is there
    keep(one(place.out), tmp_path / "kept")
    assert words(load_kept(tmp_path / "kept")[0]) == words(study)


def test_what_is_missing_is_told_with_the_command_that_goes_on(place, tmp_path):
    cells = [c for c in cells_of("main", place) if (c.sampler, c.domain) == ("btd", "walker")]
    for cell in cells:
        shutil.rmtree(cell.folder(place))
    plan = place.root / "main.study.json"
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"commands": ["go on"]}))
    keep(one(place.out), tmp_path / "kept")
    page = tmp_path / "page.md"
    published.make_page(load_kept(tmp_path / "kept"), [], page, tmp_path / "figures")
    text = page.read_text()
    assert f"{len(cells)} of {len(cells_of('main', place))} runs are missing" in text
    assert "    go on\n" in text and "**cheetah**" in text and "**walker**" not in text
    assert "(figures/studies_main.png)" in text
    assert (tmp_path / "figures" / "studies_main.png").stat().st_size > 10_000


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
    assert told.startswith("**cheetah**: behavioural tasks are ahead of uniform ones with 2 of 2 ")
    assert "significantly with 1. The difference is 60 on average over 3 seeds" in told
    assert "(95 %: -15 to 135, p = 0.074)" in told  # 4.303 x 17.32 = 74.5
    assert "1.60 times the score (0.85 to 2.35)" in told  # (140 - 40) becomes 160; 74.5 / 100
    lines = published.wrapped([f"- {told}"])
    table = published.scores_table(one(place.out), "docs/")
    assert (
        table[2]
        == "| [cheetah](docs/cheetah.md) | 40 | 50 | **200** (200 to 200), 3 | 200 to 200 | 600 |"
    )
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


def peer(seed, data, score):
    return {"seed": seed, "data": data, "returns": [[[score]] * 4], "minutes": 6.0, "updates": 9000}


def test_a_peer_is_compared_on_the_same_data_alone(place):
    cells = [c for c in cells_of("main", place) if c[1:4] == ("cheetah", "fb", "btd")]
    for cell in cells:
        file = cell.folder(place) / "results.json"
        results = json.loads(file.read_text())
        results["returns"] = [[[100.0 + cell.collection]] * 4]
        results["data"]["fingerprint"] = f"data{cell.collection}"
        results["seconds"] = {"encoder": 100, "tasks": 20, "policy": 240}
        file.write_text(json.dumps(results))
    lines = published.peer_lines(
        one(place.out), [peer(0, "data0", 40.0), peer(1, "data1", 51.0), peer(2, "other", 9.0)]
    )
    assert "| 0 | 40 | 6 | 9,000 | 100 | 6.0 | 60 |" in lines
    assert "| 1 | 51 | 6 | 9,000 | 101 | 6.0 | 50 |" in lines
    assert not any("9.0" in line for line in lines)
    assert lines[-2].startswith("Mean 100 against 46, difference 55 (95 %: -9 to 119, p = 0.058)")
    assert published.peer_lines(one(place.out), []) == []


def test_a_file_that_is_no_kept_study_is_one_clear_line(tmp_path):
    (tmp_path / "main_laptop.json").write_text("[]")
    with pytest.raises(DataError, match=r"main_laptop.json' is no study that was kept"):
        load_kept(tmp_path)
    (tmp_path / "main_laptop.json").write_text("{")
    with pytest.raises(DataError, match=r"is damaged"):
        load_kept(tmp_path)


def test_the_project_s_page_and_readme_are_those_of_its_kept_studies(tmp_path):
    kept, page = ROOT / "docs/results/studies", tmp_path / "docs/results/studies.md"
    page.parent.mkdir(parents=True)
    studies = load_kept(kept)
    sections = published.make_page(
        studies, published.read_peer(kept), page, tmp_path / "docs/figures"
    )
    assert page.read_text() == (ROOT / "docs/results/studies.md").read_text()
    for section in sections:
        for chart in section.charts:
            assert (ROOT / "docs/figures" / f"{chart.name}.png").is_file()
    readme = tmp_path / "README.md"
    shutil.copy(ROOT / "README.md", readme)
    main = next(study for study in studies if study.name == "main")
    place = "docs/figures/studies_main.png", "docs/results/studies.md"
    published.update_readme(readme, main, *place)
    assert readme.read_text() == (ROOT / "README.md").read_text()
    known = [run for study in studies for run in study.runs() if run.results]
    assert known and all(np.isfinite(run.mean) for run in known)


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
