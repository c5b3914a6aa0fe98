"""Films as files: mp4 where ffmpeg is there (or the package imageio-ffmpeg), else gif."""

import importlib
import shutil
import subprocess
from pathlib import Path

import numpy as np
from PIL import Image

from zsrl_jax.errors import ConfigError, ZsrlError

ENDINGS = ("gif", "mp4")
WITHOUT = "no ffmpeg here: apt-get install ffmpeg, or pip install imageio-ffmpeg, for mp4"


def find_ffmpeg() -> tuple[str, str] | None:
    """Return the path of ffmpeg and where it comes from, or None."""
    if found := shutil.which("ffmpeg"):
        return found, "ffmpeg"
    try:
        return importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe(), "imageio-ffmpeg"
    except (ImportError, RuntimeError, OSError):  # it raises where it has no program for a machine
        return None


def choose_format(asked: str) -> tuple[str, str]:
    """Return the format to write and why; `auto` is mp4 if it can be written."""
    encoder = find_ffmpeg()
    if asked == "gif":
        return "gif", "as asked"
    if asked == "mp4" and encoder is None:
        raise ConfigError(f"mp4 cannot be written: {WITHOUT}; or --format=gif")
    if encoder is None:
        return "gif", WITHOUT
    return "mp4", "as asked" if asked == "mp4" else f"written by {encoder[1]}"


def check_name(path: Path, flag: str) -> None:
    """Refuse the name of a film before it is made."""
    if path.suffix[1:] not in ("", *ENDINGS):
        raise ConfigError(f"{flag}={path}: expected a name that ends in .gif or .mp4")
    if not path.parent.is_dir():
        raise ConfigError(f"{flag}={path}: the folder '{path.parent}' does not exist")


def write_film(path: Path, frames: np.ndarray, fps: float, asked: str = "auto") -> tuple[Path, str]:
    """Write a film as its name says, else as `asked`; return its path and why that format."""
    chosen, why = choose_format(path.suffix[1:] or asked)
    path = path.with_suffix(f".{chosen}")
    {"gif": write_gif, "mp4": write_mp4}[chosen](path, frames, fps)
    return path, why


def write_gif(path: Path, frames: np.ndarray, fps: float) -> None:
    """Write frames [T, H, W, 3] as an endless gif."""
    images = [Image.fromarray(frame).quantize(64) for frame in frames]
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0
    )


def write_mp4(path: Path, frames: np.ndarray, fps: float) -> None:
    """Write frames [T, H, W, 3] as H.264 through ffmpeg, which wants even sizes."""
    encoder = find_ffmpeg()
    if encoder is None:
        raise ConfigError(f"mp4 cannot be written: {WITHOUT}")
    size = f"{frames.shape[2]}x{frames.shape[1]}"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(fps), "-i", "-"]
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]
    command = [encoder[0], "-y", "-loglevel", "error", *source, *even, "-pix_fmt", "yuv420p"]
    done = subprocess.run(
        [*command, str(path)], input=frames.tobytes(), capture_output=True, check=False
    )
    if done.returncode:
        raise ZsrlError(f"ffmpeg failed: {' '.join(done.stderr.decode().split())}")
