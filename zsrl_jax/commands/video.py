"""Film a finished run: python -m experiments.video runs/cheetah_fb_btd --task=run

It writes one file per task (all tasks of the domain unless --task names some) into the run folder:
an mp4 if ffmpeg is installed, else a gif.
"""

import shutil
import subprocess
from pathlib import Path

import numpy as np
from absl import flags
from PIL import Image

import zsrl_jax
from zsrl_jax.commands import cli
from zsrl_jax.envs import find_task
from zsrl_jax.envs.render import frame_rate, render
from zsrl_jax.errors import ConfigError, TaskError, ZsrlError

TASK = flags.DEFINE_list("task", None, "tasks, separated by commas; default: all of the domain")
FORMAT = flags.DEFINE_enum("format", "auto", ["auto", "gif", "mp4"], "auto: mp4 where possible")
SECONDS = flags.DEFINE_float("seconds", 10.0, "length of the film, in simulated time")
FPS = flags.DEFINE_integer("fps", 25, "frames per second")
WIDTH = flags.DEFINE_integer("width", 320, "in pixels")
HEIGHT = flags.DEFINE_integer("height", 240, "in pixels")
START = flags.DEFINE_integer("start", 0, "seed of the first state of the episode")
MEMBER = flags.DEFINE_integer("member", 0, "which training seed of the run acts")


def write_gif(path: Path, frames: np.ndarray, fps: float) -> None:
    """Write frames [T, H, W, 3] as an endless gif."""
    images = [Image.fromarray(frame).quantize(64) for frame in frames]
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0
    )


def write_mp4(path: Path, frames: np.ndarray, fps: float) -> None:
    """Write frames [T, H, W, 3] as H.264 through ffmpeg."""
    encoder = shutil.which("ffmpeg")
    if encoder is None:
        raise ConfigError("mp4 needs ffmpeg: apt-get install ffmpeg, or --format=gif")
    size = f"{frames.shape[2]}x{frames.shape[1]}"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(fps), "-i", "-"]
    command = [encoder, "-y", "-loglevel", "error", *source, "-pix_fmt", "yuv420p", str(path)]
    done = subprocess.run(command, input=frames.tobytes(), capture_output=True, check=False)
    if done.returncode:
        raise ZsrlError(f"ffmpeg failed: {done.stderr.decode().strip()}")


def film(agent: zsrl_jax.Agent | zsrl_jax.Oracle, task: str, path: Path) -> Path:
    """Write the film of one task; return its path."""
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
    chosen = FORMAT.value
    if chosen == "auto":
        chosen = "mp4" if shutil.which("ffmpeg") else "gif"
    path = path.with_suffix(f".{chosen}")
    (write_mp4 if chosen == "mp4" else write_gif)(path, frames, rate / stride)
    return path


def main(argv: list[str]) -> None:
    """Film each task."""
    if len(argv) != 2:
        raise ConfigError("expected one run folder: python -m experiments.video WORKDIR --task=run")
    workdir = Path(argv[1])
    agent = zsrl_jax.load(workdir)
    if agent.domain is None:
        raise TaskError("this run has no known domain: expected a run of a domain of zsrl_jax")
    tasks = TASK.value or list(agent.task_names)
    for task in tasks:
        find_task(agent.domain, task)
    for task in tasks:
        print(film(agent, task, workdir / f"{agent.domain}_{task}"), flush=True)


if __name__ == "__main__":
    cli.run(main)
