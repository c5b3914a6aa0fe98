"""Film a finished run: python -m experiments.video runs/cheetah_fb_btd --task=run

Writes one file per task (all tasks of the domain unless --task names some) into the run folder, or
into this folder for an agent that ships (`video cheetah --task=run`):
an mp4 where ffmpeg or the package imageio-ffmpeg is installed, else a gif; each line says which and
why. With --strip=FILE.gif all tasks play side by side in
one film.
"""

from pathlib import Path

import numpy as np
from absl import flags
from PIL import Image, ImageDraw

import zsrl_jax
from zsrl_jax.commands import cli, films, usage_of
from zsrl_jax.envs import find_task
from zsrl_jax.envs.render import frame_rate, render
from zsrl_jax.errors import ConfigError, TaskError, missing_domain

TASK = flags.DEFINE_list("task", None, "tasks, with commas between; default: all of the domain")
FORMAT = flags.DEFINE_enum("format", "auto", ["auto", "gif", "mp4"], "auto: mp4 if it can")
SECONDS = flags.DEFINE_float("seconds", 10.0, "length of the film, in simulated time", 0.1)
FPS = flags.DEFINE_integer("fps", 25, "frames per second", 1)
WIDTH = flags.DEFINE_integer("width", 320, "in pixels", 16)
HEIGHT = flags.DEFINE_integer("height", 240, "in pixels", 16)
STRIP = flags.DEFINE_string("strip", None, "one film of all tasks side by side, into this file")
START = flags.DEFINE_integer("start", 0, "seed of the first state of the episode")
MEMBER = flags.DEFINE_integer("member", 0, "which training seed of the run acts")


HEAD = 22  # pixels above each film of a strip, for its name
Player = zsrl_jax.Agent | zsrl_jax.Oracle


def play(agent: Player, task: str) -> tuple[np.ndarray, float]:
    """Return the frames of one task's film, and how many of them are shown per second."""
    assert agent.domain is not None
    rate = frame_rate(agent.domain)
    stride = max(1, round(rate / FPS.value))
    frames = render(
        agent,
        agent.infer(reward=task),
        member=MEMBER.value,
        seed=START.value,
        steps=round(SECONDS.value * rate),
        fps=rate / stride,
        width=WIDTH.value,
        height=HEIGHT.value,
    )
    return frames, rate / stride


def write(path: Path, frames: np.ndarray, fps: float) -> str:
    """Write a film; return the line that says where, in which format and why."""
    file, why = films.write_film(path, frames, fps, FORMAT.value)
    return f"{file}   ({file.suffix[1:]}: {why})"


def side_by_side(films: dict[str, np.ndarray]) -> np.ndarray:
    """Join films of the same length, each with its name above it."""
    panels = []
    for name, frames in films.items():
        head = Image.new("RGB", (frames.shape[2], HEAD), "white")
        ImageDraw.Draw(head).text((8, 4), name.replace("_", " "), fill="black", font_size=13)
        top = np.broadcast_to(np.asarray(head)[None], (len(frames), HEAD, frames.shape[2], 3))
        panels.append(np.concatenate([top, frames], axis=1))
    return np.concatenate(panels, axis=2)


def main(argv: list[str]) -> None:
    """Film each task."""
    if len(argv) != 2:
        raise ConfigError(f"expected one run folder: {usage_of('video', 'RUN --task=run')}")
    if STRIP.value:
        films.check_name(Path(STRIP.value), "--strip")
    films.choose_format(FORMAT.value)
    folder = Path(argv[1])
    agent = zsrl_jax.load(folder)
    if agent.domain not in zsrl_jax.DOMAINS:
        told = "film it from Python: zsrl_jax.render(agent, z, environment=...)"
        raise TaskError(missing_domain(agent.domain, told))
    if not 0 <= MEMBER.value < agent.num_seeds:
        raise ConfigError(f"--member={MEMBER.value}: the run has {agent.num_seeds} seed(s)")
    tasks = TASK.value or list(agent.task_names)
    for task in tasks:
        find_task(agent.domain, task)
    if STRIP.value:
        played = {task: play(agent, task) for task in tasks}
        joined = side_by_side({task: frames for task, (frames, _) in played.items()})
        print(write(Path(STRIP.value), joined, played[tasks[0]][1]))
        return
    for task in tasks:
        path = (folder if folder.is_dir() else Path()) / f"{agent.domain}_{task}"
        print(write(path, *play(agent, task)), flush=True)


if __name__ == "__main__":
    cli.run(main)
