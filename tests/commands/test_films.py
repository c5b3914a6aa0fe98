"""Films: mp4 by ffmpeg or by imageio-ffmpeg, else gif, and why; names are checked first."""

import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from zsrl_jax.commands import films
from zsrl_jax.errors import ConfigError

FRAMES = np.random.default_rng(0).integers(0, 255, (6, 33, 35, 3)).astype(np.uint8)


@pytest.fixture
def nothing(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)


def test_without_ffmpeg_a_gif_is_written_and_it_is_said_why(nothing, tmp_path):
    file, why = films.write_film(tmp_path / "film", FRAMES, 25)
    assert file == tmp_path / "film.gif" and file.read_bytes().startswith(b"GIF8")
    assert why == films.WITHOUT and "imageio-ffmpeg" in why and "\n" not in why
    with pytest.raises(ConfigError, match="apt-get install ffmpeg, or pip install imageio-ffmpeg"):
        films.write_film(tmp_path / "film.mp4", FRAMES, 25)
    assert films.choose_format("gif") == ("gif", "as asked")


def test_the_package_serves_where_there_is_no_ffmpeg(nothing, monkeypatch, tmp_path):
    encoder = tmp_path / "its-ffmpeg"
    encoder.write_text('#!/bin/sh\nfor last; do :; done\n/bin/cat > "$last"\n')
    encoder.chmod(0o755)
    package = SimpleNamespace(get_ffmpeg_exe=lambda: str(encoder))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", package)
    file, why = films.write_film(tmp_path / "film", FRAMES, 25)
    assert file.name == "film.mp4" and why == "written by imageio-ffmpeg"
    assert file.read_bytes() == FRAMES.tobytes()


def test_a_package_without_a_program_counts_as_none(nothing, monkeypatch):
    def none():
        raise RuntimeError("No ffmpeg exe could be found")

    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", SimpleNamespace(get_ffmpeg_exe=none))
    assert films.find_ffmpeg() is None


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_ffmpeg_takes_odd_sizes(tmp_path):
    file, why = films.write_film(tmp_path / "film", FRAMES, 25)
    assert file.suffix == ".mp4" and why == "written by ffmpeg" and file.stat().st_size > 100


def test_names_are_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(ConfigError, match=r"--strip=.*ends in .gif or .mp4"):
        films.check_name(tmp_path / "film.avi", "--strip")
    with pytest.raises(ConfigError, match="folder .* does not exist"):
        films.check_name(tmp_path / "no" / "film.gif", "--strip")
