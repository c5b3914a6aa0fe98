"""The report as one self-contained HTML page."""

import base64
import html
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from zsrl_jax.commands.report.figures import Chart, inline
from zsrl_jax.commands.report.load import Row
from zsrl_jax.commands.report.stamps import stamp
from zsrl_jax.commands.report.studies import Section
from zsrl_jax.commands.report.tables import MISSING, Entry, Table

LARGEST = 4_000_000  # bytes of a film that is put inside of the page
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 84em; padding: 0 1em; }
figure { margin: 1em 0; } .wide { overflow-x: auto; } nav a { margin-right: 1em; }
table { border-collapse: collapse; margin: .6em 0 1.6em; font-size: 13px; }
th, td { border-bottom: 1px solid #ddd; padding: .25em .7em; text-align: right; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { cursor: pointer; user-select: none; background: #f4f4f4; }
th[aria-sort=ascending]::after { content: " \\2191"; }
th[aria-sort=descending]::after { content: " \\2193"; }
td.missing { color: #b00020; } img { max-width: 100%; } .stamp { color: #555; font-size: 13px; }
code { font-size: 12px; overflow-wrap: anywhere; } details { margin: .4em 0; }
"""
SCRIPT = """
for (const head of document.querySelectorAll("th")) head.addEventListener("click", () => {
  const table = head.closest("table"), body = table.tBodies[0];
  const index = [...head.parentNode.children].indexOf(head);
  const up = head.getAttribute("aria-sort") !== "ascending";
  const key = row => row.children[index].dataset.value ?? row.children[index].textContent;
  const compare = (a, b) => {
    const x = key(a), y = key(b), n = Number(x) - Number(y);
    return Number.isNaN(n) ? x.localeCompare(y) : n;
  };
  const rows = [...body.rows].sort((a, b) => up ? compare(a, b) : compare(b, a));
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows);
});
const unfold = () => {
  const run = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (run && run.tagName === "DETAILS") { run.open = true; run.scrollIntoView(); }
};
addEventListener("hashchange", unfold);
unfold();
"""


def make_html(title: str, sections: Sequence[Section], extra: Sequence[Chart],
              runs: Sequence[Row], out: Path) -> str:  # fmt: skip
    """Return the page."""
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f"<p class=stamp>{html.escape(stamp(list(runs)))}</p>",
    ]
    marks = [html.escape(f"{s.study.place}-{s.study.name}") for s in sections]
    names = [html.escape(f"{s.study.name} ({s.study.scale})") for s in sections]
    links = (f'<a href="#{mark}">{name}</a>' for mark, name in zip(marks, names, strict=True))
    parts.append(f'<nav>{"".join(links)}<a href="#runs">runs</a></nav>')
    for section, mark in zip(sections, marks, strict=True):
        study = section.study
        parts.append(f'<h2 id="{mark}">{html.escape(f"{study.name} ({study.scale} scale)")}</h2>')
        parts.append(f"<p>{html.escape(study.title)}.</p>{_missing(section)}")
        parts += [f"<p>{html.escape(note)}</p>" for note in section.notes]
        parts += [_figure(chart) for chart in section.charts]
        parts += [_film(file, out) for file in section.films]
        parts += [_table(table, out) for table in section.tables]
    if extra:
        parts.append("<h2>Learning curves</h2>")
        parts += [_figure(chart) for chart in extra]
    parts += ['<h2 id="runs">Runs</h2>', *(_run(row, out) for row in runs)]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>'
    icon = '<link rel="icon" href="data:,">'
    body = "\n".join(parts)
    return (f'<!doctype html><html lang="en"><head>{head}{icon}</head>\n<body>{body}\n'
            f"<script>{SCRIPT}</script></body></html>\n")  # fmt: skip


def _figure(chart: Chart) -> str:
    alt = html.escape(chart.caption, quote=True)
    return (f'<figure><img alt="{alt}" src="{inline(chart)}">'
            f"<figcaption>{html.escape(chart.caption)} <span class=stamp>"
            f"{html.escape(stamp(chart.rows))}</span></figcaption></figure>")  # fmt: skip


def _missing(section: Section) -> str:
    lost = section.study.missing()
    if not lost:
        return ""
    told = [(html.escape(row.folder.name), html.escape(row.command)) for row in lost]
    items = "".join(f"<li>{name}: <code>{command}</code></li>" for name, command in told)
    count = f"{len(lost)} of {len(section.study.runs())} cells are missing"
    return f"<details class=stamp><summary>{count}</summary><ul>{items}</ul></details>"


def _film(file: Path, out: Path) -> str:
    """Show a film: inside of the page if it is small, else from its file beside it."""
    kind = {".gif": "image/gif", ".mp4": "video/mp4"}[file.suffix]
    source = html.escape(quote(relative(file, out)))
    if file.stat().st_size <= LARGEST:
        source = f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"
    name = html.escape(f"{file.parent.name}/{file.name}")
    shown = (f'<img src="{source}" alt="{name}">' if file.suffix == ".gif"
             else f'<video src="{source}" controls loop muted></video>')  # fmt: skip
    return f"<figure>{shown}<figcaption>{name}</figcaption></figure>"


def _table(table: Table, out: Path) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.head)
    body = "".join("<tr>" + "".join(_cell(entry, out) for entry in row) + "</tr>\n"
                   for row in table.body)  # fmt: skip
    title = f"<h3>{html.escape(table.title)}</h3>"
    return (f"{title}<div class=wide><table><thead><tr>{head}</tr></thead>\n"
            f"<tbody>{body}</tbody></table></div>")  # fmt: skip


def _cell(entry: Entry, out: Path) -> str:
    text = html.escape(entry.text)
    if entry.folder is not None and entry.text != MISSING:
        text = f'<a href="#{anchor(entry.folder, out)}">{text}</a>'
    for i, folder in enumerate(entry.folders):
        text += f' <a href="#{anchor(folder, out)}" title="{html.escape(folder.name)}">{i + 1}</a>'
    value = "" if entry.value is None else f' data-value="{_sortable(entry.value)}"'
    mark = " class=missing" if entry.text == MISSING else ""
    return f"<td{mark}{value}>{text}</td>"


def _sortable(value: float) -> str:
    """Return a number as JavaScript reads it: instead of -inf, a number that is too large."""
    return f"{value:.6g}" if math.isfinite(value) else "-1e999"


def anchor(folder: Path, out: Path) -> str:
    """Return the name of a run's anchor on the page."""
    return "run-" + html.escape(relative(folder, out).replace("/", "-").replace(" ", "-"))


def relative(folder: Path, out: Path) -> str:
    """Return a folder as seen from the report."""
    return os.path.relpath(folder, out)


def _run(row: Row, out: Path) -> str:
    results = row.results or {}
    place = relative(row.folder, out)
    config = html.escape(json.dumps(results.get("config"), indent=1))
    seconds = results.get("seconds", {}).get("total")
    taken = f"{seconds:.0f} s; " if seconds is not None else ""
    return (f'<details id="{anchor(row.folder, out)}"><summary>{html.escape(place)}</summary>'
            f"<p>{html.escape(stamp([row]))}; {taken}results: "
            f'<a href="{html.escape(quote(place))}/results.json">results.json</a></p>'
            f"<p><code>{html.escape(row.command)}</code></p>"
            f"<details><summary>config</summary><pre>{config}</pre></details></details>"
            )  # fmt: skip
