"""What every figure and table says of its runs: scale, seeds, collections, data, updates."""

from typing import Any

from zsrl_jax.commands.report.load import Row

STAGES = ("encoder", "policy", "oracle")


def stamp(rows: list[Row]) -> str:
    """Return scale, seeds, collections, data and updates of rows in a line, for every figure."""
    known = _known(rows)
    if not known:
        return "no results yet"
    scales = sorted({r["scale"] for r in known})
    own = [r["data"] for r in known if r["data"]["source"].startswith("collected")]
    data = sorted({r["data"]["source"] for r in known if r["data"] not in own})
    if own:
        episodes = sorted({data["episodes"] for data in own})
        data = [f"collected by ourselves (RND, {', '.join(map(str, episodes))} episodes)", *data]
    text = f"scale: {', '.join(scales)} · seeds: {counts(rows, 'seeds')} · collections: "
    text += f"{counts(rows, 'collections')} · data: " + ", ".join(data)
    for stage in STAGES:
        if updates := updates_of(rows, stage):
            text += f" · {stage} updates: {updates}"
    if lost := sum(row.lost() for row in rows):
        text += f" · {lost} seeds failed"
    if own or scales != ["paper"]:
        text += " · not comparable with published ExORL scores"
    return text


def brief(rows: list[Row]) -> str:
    """Return seeds, collections and updates of rows in a few words, for the title of a table."""
    if not _known(rows):
        return "no results yet"
    told = [f"seeds: {counts(rows, 'seeds')}", f"collections: {counts(rows, 'collections')}"]
    found = {stage: updates_of(rows, stage) for stage in STAGES}
    told += [f"{stage} updates: {updates}" for stage, updates in found.items() if updates]
    return "; ".join(told)


def updates_of(rows: list[Row], stage: str) -> str:
    """Return the updates of a stage in all rows; an oracle's are its own stage."""
    found: set[int] = set()
    for results in _known(rows):
        if stage != "encoder" and not results.get("returns"):
            continue  # it measures an encoder, or has no policy yet
        section = {"oracle": "policy"}.get(stage, stage)
        if ("oracle" in results["config"]) == (stage == "oracle"):
            found.add(results["config"][section]["updates"])
    return ", ".join(f"{count:,}" for count in sorted(found))


def counts(rows: list[Row], what: str) -> str:
    """Return how many seeds or collections rows have; one that says nothing has one collection."""
    found = {len(set(results.get(what, (0,)))) for results in _known(rows)}
    return ", ".join(map(str, sorted(found)))


def _known(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the results of rows, or what a run without results wrote when it started."""
    return [found for row in rows if (found := row.results or row.started)]
