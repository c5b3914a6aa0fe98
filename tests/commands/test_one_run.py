"""What commands say of one run: verdicts, its page, and names that are refused first."""

import json
import shutil

import pytest
from helpers.person import ROOT, refused

from zsrl_jax.commands import diagnose, doctor
from zsrl_jax.commands.bench.__main__ import main as bench
from zsrl_jax.commands.paper.cells import Place, cells_of
from zsrl_jax.commands.paper.plan import tell
from zsrl_jax.commands.report import markdown, page, single
from zsrl_jax.commands.report.figures import close
from zsrl_jax.commands.report.load import load_runs
from zsrl_jax.commands.report.studies import loose_runs

RUN = ROOT / "tests/fixtures/run_0_1"


@pytest.fixture
def run(tmp_path):
    """A run of smoke scale with a name that Markdown and HTML could misread, and a film."""
    folder = tmp_path / "a|b_<i>"
    shutil.copytree(RUN, folder)
    (folder / "cheetah_run.gif").write_bytes(b"GIF89a")
    lines = [{"step": 20 * i, "encoder/loss": [1 / i], "encoder/effective_rank": [4.0],
              "encoder/r2_run": [0.3], "policy/q_abs": [2.0]} for i in (1, 2, 3)]  # fmt: skip
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    results = json.loads((folder / "results.json").read_text())
    results["config"]["policy"]["updates"] = 77
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_the_page_of_one_run_is_whole(run, tmp_path):
    rows = load_runs(tmp_path)
    (section,) = loose_runs([], rows)
    assert [chart.name for chart in section.charts] == ["run1_scores", "run1_curves"]
    assert section.films == (run / "cheetah_run.gif",) and section.notes == ()
    titles = " ".join(table.title for table in section.tables)
    assert "checks" in titles and "prompts" in titles and "differ from smoke" in titles
    changed = {row[0].text: row[2].text for row in single.deviation_table(rows[0]).body}
    assert changed["policy.updates"] == "77" and "encoder.dim" not in changed
    made = page.make_html("t", [section], [], rows, tmp_path)
    assert "data:image/gif;base64,R0lGODlh" in made and "<i>" not in made
    text = markdown.make_markdown("a|b*c", [section], [], rows, tmp_path)
    close(section.charts)
    assert text.startswith("# a\\|b\\*c\n") and "<i>" not in text
    assert "](figures/run1_scores.png)" in text and "cheetah\\_run.gif" in text
    heads = [line for line in text.splitlines() if line.startswith("| encoder")]
    assert heads and all(len(set(x := h.split(" | "))) == len(x) for h in heads)


def test_without_a_film_the_command_is_said(run, tmp_path):
    (run / "cheetah_run.gif").unlink()
    (section,) = loose_runs([], load_runs(tmp_path))
    close(section.charts)
    assert section.films == () and "experiments.video" in section.notes[0]


@pytest.mark.parametrize(
    ("given", "shown"),
    [("a|b", r"a\|b"), ("a_b*c", r"a\_b\*c"), ("<b>", "&lt;b&gt;"), ("one\ntwo", "one two")],
)
def test_markdown_shows_what_it_is_given(given, shown):
    assert markdown.escape(given) == shown
    assert markdown.code("a `b` | c") == "`` a `b` \\| c ``"


def test_diagnose_says_a_verdict(run):
    told = diagnose.health_of(run, diagnose.read_curves(run))
    assert told.splitlines()[0].startswith(("healthy", "mostly", "not healthy"))
    assert "encoder/effective_rank: 4.0 of 8 dimensions used" in told


def test_panels_have_labels(run, tmp_path, monkeypatch):
    from matplotlib import pyplot

    shown = []
    monkeypatch.setattr(pyplot, "close", shown.append)
    curves = {"a": diagnose.read_curves(run)}
    diagnose.draw(curves, ["encoder/loss"], tmp_path / "out.png")
    axis = shown[0].axes[0]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("update", "loss")


@pytest.mark.parametrize(
    ("module", "args"),
    [
        ("experiments.diagnose", [RUN, "--plot=x.xyz"]),
        ("experiments.diagnose", [RUN, "--plot=no/x.png"]),
        ("experiments.data", ["inspect", RUN, "--plot=x.xyz"]),
        ("experiments.video", [RUN, "--fps=0"]),
        ("experiments.video", [RUN, "--seconds=-1"]),
        ("experiments.video", [RUN, "--strip=x.avi"]),
        ("experiments.video", [RUN / "results.json"]),
    ],
)
def test_raw_errors_are_one_line(module, args):
    done = refused(*args, module=module)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines[-1].startswith("error: ") and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def get_config(): return {'a': 1}", "returns a dict: expected a ConfigDict"),
        ("def get_config(:", "SyntaxError"),
        ("x = 1", "has no function get_config"),
        ("import nothing_there", "No module named 'nothing_there'"),
        ("def get_config(): return 1 / 0", "ZeroDivisionError"),
        ("from ml_collections import ConfigDict\ndef get_config(): return ConfigDict({'a': 1})",
         "has no field checkpoint_every: expected one made by zsrl_jax.config"),
    ],
)  # fmt: skip
def test_a_config_file_that_is_wrong_is_one_line(code, told, tmp_path):
    (tmp_path / "mine.py").write_text(code)
    done = refused(f"--config={tmp_path / 'mine.py'}")
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ") and told in last and "Traceback" not in done.stderr


def test_doctor_and_bench_have_help(capsys):
    assert doctor.main(["doctor", "--help"]) == 0
    assert "Can this machine run" in capsys.readouterr().out
    assert doctor.main(["doctor", "--hlep"]) == 2
    assert bench(["--help"]) == 0 and "gmm" in capsys.readouterr().out
    assert bench([]) == 2 and capsys.readouterr().err.startswith("error: ")


def test_doctor_looks_at_pictures_and_films():
    first, second = doctor.pictures()
    assert first.text.startswith("pictures: ") and second.text.startswith("films: ")


def test_dry_names_cells_and_times_and_counts_no_policy_where_there_is_none(tmp_path):
    place = Place(tmp_path, "paper")
    text = tell({"dilution": cells_of("dilution", place)}, place)
    row = text.splitlines()[1].split()
    assert row[:4] == ["dilution", "126", "126", "0"] and row[5] == "0" and "days" in row
    assert "cheetah_fb-dim1000-seeds5" in text and "about" in text
    place = Place(tmp_path, "smoke")
    both = {name: cells_of(name, place) for name in ("main", "dilution")}
    assert "together" in tell(both, place)
