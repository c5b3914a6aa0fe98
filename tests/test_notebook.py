"""The tour runs from top to bottom with the agent that ships, of laptop scale."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
TOUR = ROOT / "notebooks" / "tour.ipynb"


@pytest.mark.whole
def test_the_tour_runs_from_top_to_bottom(tmp_path, monkeypatch):
    for name, value in {
        "ZSRL_EPISODES": 1, "JAX_PLATFORMS": "cpu", "PYTHONPATH": ROOT,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    book = nbformat.read(TOUR, 4)
    where = {"metadata": {"path": str(tmp_path)}}  # its data goes there, too
    NotebookClient(book, timeout=600, kernel_name="python3", resources=where).execute()
    printed = [out for cell in book.cells for out in cell.get("outputs", [])]
    assert sum("image/png" in out.get("data", {}) for out in printed) == 5
    assert sum("image/gif" in out.get("data", {}) for out in printed) == 1  # a film of all prompts
    assert "your function stand_tall of physics states" in str(printed)
    assert not any(out["output_type"] == "error" for out in printed)
    assert "1 seed(s) x 1 episodes" in str(printed)


def test_the_outputs_kept_are_of_a_laptop_run_and_name_no_machine():
    text = TOUR.read_text()
    assert "scale laptop" in text and "scale smoke" not in text
    assert str(Path.home()) + "/" not in text and "/tmp/" not in text
    kept = nbformat.reads(text, 4)
    nbformat.validate(kept)
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
