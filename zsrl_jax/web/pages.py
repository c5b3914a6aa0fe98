"""The page as one file: our sources, MuJoCo, three.js and an agent, inside of one HTML.

Its content policy allows only what the file itself holds: scripts and styles by their checksums,
modules that the file unpacks, no connection to anywhere. 'unsafe-eval' is for MuJoCo's bindings,
which make functions of their own type tables; no text of a user reaches them.
"""

import base64
import gzip
import hashlib
import html
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from zsrl_jax.agent import Agent
from zsrl_jax.errors import DataError, DiskError, ZsrlError
from zsrl_jax.files.atomic import refuse_unwritable, write_text
from zsrl_jax.runs import results, shipped
from zsrl_jax.runs.agent_files import load
from zsrl_jax.training.data_source import open_data
from zsrl_jax.web import bundle, parts
from zsrl_jax.web.clips import Clip, choose_clips
from zsrl_jax.web.description import describe

CLIENT = Path(__file__).parent / "client"
MODULES = (  # in the order in which they need each other
    "arrays.js", "language.js", "networks.js", "prompts.js", "robot.js", "words.js", "chart.js",
    "controls.js", "poses.js", "scene.js", "panel.js", "address.js", "hands.js", "app.js",
)  # fmt: skip


def page(
    agent: Agent | str | os.PathLike[str],
    out: str | os.PathLike[str] = "page",
    *,
    member: int = 0,
) -> Path:
    """Write a page where a stranger prompts the agent, into out/index.html; return its path.

    `agent` is an agent, the folder of a run, or the name of an agent that ships with the package.
    `member` is the training seed that acts. The page is one file: it opens by a double click.
    """
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise DiskError(f"'{folder}' is a file: expected a folder for index.html")
    refuse_unwritable(folder, folder / "index.html")
    name = os.fspath(agent) if isinstance(agent, str | os.PathLike) else None
    found = load(name) if name is not None else agent
    if isinstance(found, Agent) and not 0 <= member < found.num_seeds:
        raise DataError(f"member {member}: the agent has {found.num_seeds} training seed(s)")
    text = make_html(found, member, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(f"cannot make the folder '{folder}': {error.strerror}") from error
    write_text(folder / "index.html", text)
    return folder / "index.html"


def make_html(agent: Any, member: int = 0, name: str | None = None) -> str:
    """Return the page of an agent; `name` is what `load` took to load it."""
    known = getattr(agent, "shipped", None)
    clips = _shipped_clips(known) if known else _clips_of(agent)
    scores = _scores(shipped.read_card(known) if known else _results_of(agent))
    call = _call(agent, name)
    facts, arrays, files = describe(agent, member, clips, scores, call)
    table, block = bundle.pack(arrays)
    mujoco, three = parts.read(parts.MUJOCO), parts.read(parts.THREE)
    texts = {
        "modules": _modules(mujoco, three), "facts": facts, "table": table, "files": files,
        "licences": licences(three["LICENSE"].decode()),
    }  # fmt: skip
    blocks = {
        "wasm": mujoco["mujoco.wasm"],
        "arrays": block,
        "texts": json.dumps(texts, allow_nan=False).encode(),
    }
    style, loader = (CLIENT / "style.css").read_text(), (CLIENT / "loader.js").read_text()
    values = {
        "policy": policy(style, loader),
        "domain": html.escape(str(facts["domain"])),
        "style": style,
        "blocks": "\n".join(_block(key, data) for key, data in blocks.items()),
        "loader": loader,
    }
    text = (CLIENT / "index.html").read_text()
    for key, value in values.items():
        text = text.replace("{{" + key + "}}", value)
    return text


def policy(style: str, loader: str) -> str:
    """Return the content policy: what the file itself holds, and nothing from anywhere else."""
    return (
        f"default-src 'none'; script-src '{_sum(loader)}' blob: 'unsafe-eval'; "
        f"style-src '{_sum(style)}'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _sum(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _block(name: str, data: bytes) -> str:
    packed = base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()
    return f'<script type="application/octet-stream" id="{name}">{packed}</script>'


def _modules(mujoco: dict[str, bytes], three: dict[str, bytes]) -> list[list[str]]:
    """Return every module's name and source, in the order in which they need each other."""
    orbit = "examples/jsm/controls/OrbitControls.js"
    theirs = [
        ["mujoco", mujoco["mujoco.js"].decode()],
        ["./three.core.js", three["build/three.core.js"].decode()],
        ["three", three["build/three.module.js"].decode()],
        ["three/addons/controls/OrbitControls.js", three[orbit].decode()],
    ]
    return theirs + [[f"./{name}", (CLIENT / name).read_text()] for name in MODULES]


def licences(three: str) -> str:
    """Return the licences of all that a page ships."""
    apache = (CLIENT / "LICENSE-Apache-2.0.txt").read_text()
    return (
        f"{parts.MUJOCO.name} {parts.MUJOCO.version} (Copyright DeepMind Technologies Limited) and "
        "the robots' XML of dm_control (Copyright The dm_control Authors): Apache License 2.0, "
        "below. zsrl_jax: the same.\n\n"
        f"{parts.THREE.name} {parts.THREE.version}:\n\n{three.strip()}\n\n{apache.strip()}\n"
    )


def _call(agent: Any, name: str | None) -> str:
    """Return what the page shows as the argument of `load`: no path of this machine."""
    if name is not None and not Path(name).is_absolute():
        return name
    if ours := getattr(agent, "shipped", None):
        return str(ours)
    workdir = getattr(agent, "workdir", None)
    return workdir.name if workdir else "RUN"


def _shipped_clips(name: str) -> list[Clip]:
    return [Clip(*clip) for clip in shipped.read_clip_arrays(name)]


def _clips_of(agent: Any) -> list[Clip]:
    """Return clips of a run's data; none if the data is not at hand any more."""
    try:
        return choose_clips(open_data(agent.config, True, collect_missing=False), agent.domain)
    except (ZsrlError, OSError):
        return []


def _results_of(agent: Any) -> dict[str, Any] | None:
    """Return a run's results.json, if it has one."""
    file = None if getattr(agent, "workdir", None) is None else agent.workdir / results.FILE
    try:
        return dict(json.loads(file.read_text())) if file and file.is_file() else None
    except (OSError, ValueError) as error:
        raise DataError(f"'{file}' cannot be read ({error}): run the same command again") from error


def _scores(found: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the mean score per task, of the agent and of the random policy."""
    if not found or not found.get("tasks"):
        return None
    returns = np.asarray(found["returns"], float)  # seed, task, episode; None is nan
    played = returns[np.isfinite(returns).all(axis=(1, 2))]
    if not len(played):
        return None
    number, _, episodes = played.shape
    seeds = "1 seed" if number == 1 else f"{number} seeds"
    return {
        "tasks": found["tasks"],
        "agent": played.mean(axis=(0, 2)).tolist(),
        "random": np.asarray(found["random"], float).mean(axis=1).tolist(),
        "told": f"Mean return of 1000 steps, {seeds} x {episodes} episodes, "
        f"{found['scale']} scale. The thin mark is the random policy. None of these rewards was "
        "seen in training.",
    }
