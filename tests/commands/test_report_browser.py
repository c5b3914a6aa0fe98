"""The report in a real browser: opens from disk without network, tables sort, no console errors."""

import base64
import os
from pathlib import Path

import numpy as np
import pytest
from helpers.webdriver import browser

from zsrl_jax.commands.report import figures, page
from zsrl_jax.commands.report.figures import finish, panels
from zsrl_jax.commands.report.load import Loaded, Row
from zsrl_jax.commands.report.studies import Section
from zsrl_jax.commands.report.tables import Entry, Table, number, spread_entry

pytestmark = pytest.mark.browser
SCORES = [9.5, 100.0, float("nan"), 20.0, -3.5]


def two_seeds(score: float) -> np.ndarray:
    return np.array([[score - 1], [score + 1]]) if np.isfinite(score) else np.zeros((0, 0))


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """The report that REPORT names, or one page with a figure and a table that is out of order."""
    if "REPORT" in os.environ:
        return Path(os.environ["REPORT"]).absolute()
    folder = tmp_path_factory.mktemp("report")
    results = {"scale": "smoke", "seeds": [0], "seconds": {"total": 1.0}, "config": {"a": "</b>"},
               "data": {"source": "collected:x", "episodes": 4}}  # fmt: skip
    rows = [Row("cheetah", f"e{i}", "btd", {}, None, folder / f"run {i}", "python -m x", results)
            for i in range(len(SCORES))]  # fmt: skip
    figure, (axis,) = panels(1)
    axis.plot(np.arange(3))
    body = [
        [Entry(row.encoder), number(score, folder=row.folder), spread_entry(two_seeds(score))]
        for row, score in zip(rows, SCORES, strict=True)
    ]
    study = Loaded("main", "A study", "smoke", "", rows, {}, "x")
    chart = finish("main", "A chart", figure, rows)
    section = Section(study, [chart], [Table("Scores", ["encoder", "score", "±"], body)])
    file = folder / "index.html"
    file.write_text(page.make_html("Report", [section], [], rows, folder))
    figures.close([chart])
    return file


def column(window, index: int) -> list[str]:
    script = f"""const table = document.querySelector("table");
        return [...table.tBodies[0].rows].map(row => row.children[{index}].textContent)"""
    return window.run(script)


def test_page_opens_sorts_and_says_nothing_wrong(report, tmp_path):
    with browser() as window:
        window.open(report.as_uri())
        assert window.run("return document.querySelectorAll('h1').length") == 1
        broken = "return [...document.images].filter(i => !i.naturalWidth).length"
        assert window.run("return document.images.length") > 0 and window.run(broken) == 0
        heads = 'document.querySelector("table").tHead.rows[0].cells'
        if "REPORT" not in os.environ:
            assert column(window, 1) == ["9.5", "100.0", "missing", "20.0", "-3.5"]
            window.run(f"{heads}[1].click()")
            assert column(window, 1) == [
                "missing",
                "-3.5",
                "9.5",
                "20.0",
                "100.0",
            ]  # numbers, not words
            window.run(f"{heads}[1].click()")
            assert column(window, 1) == ["100.0", "20.0", "9.5", "-3.5", "missing"]
            window.run(f"{heads}[2].click()")
            told = [f"{score} ± 1.4" for score in (-3.5, 9.5, 20.0, 100.0)]
            assert column(window, 2) == ["missing", *told]
            window.run(f"{heads}[0].click()")
            assert column(window, 0) == ["e0", "e1", "e2", "e3", "e4"]
        else:
            rows = "[...document.querySelector('table').tBodies[0].rows]"
            keys = f"return {rows}.map(r => r.children[2].dataset.value)"
            window.run(f"{heads}[2].click()")
            values = [float(key) for key in window.run(keys)]  # -1e999, the missing, is -inf
            assert len(values) > 1 and values == sorted(values)
        if window.run("return document.querySelector('td a') !== null"):  # a score shows its run
            window.run("document.querySelector('td a').click()")
            run = "document.getElementById(decodeURIComponent(location.hash.slice(1)))"
            assert window.run(f"return {run}.tagName") == "DETAILS"
            wait = "await new Promise(done => setTimeout(done, 200));"
            assert window.run(f"return (async () => {{{wait} return {run}.open}})()")
        loaded = "return performance.getEntriesByType('resource').filter(" \
                 "r => !r.name.startsWith('data:')).map(r => r.name)"  # fmt: skip
        assert window.run(loaded) == []
        shot = window.call("screenshot", "GET")
        (tmp_path / "page.png").write_bytes(base64.b64decode(shot))
        wrong = [line for line in window.log() if line["level"] in ("SEVERE", "WARNING")]
        assert wrong == []
