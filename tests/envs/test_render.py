"""Pictures and films."""

import ctypes.util
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from absl import flags
from PIL import Image

import zsrl_jax
from zsrl_jax.commands import video
from zsrl_jax.envs import DOMAINS, Simulator, render, render_physics, rollout
from zsrl_jax.errors import ConfigError, DataError, TaskError, ZsrlError


class Still:
    """An agent with two training seeds; the first is limp, the second pushes."""

    num_seeds = 2

    def __init__(self, domain="cheetah"):
        self.domain = domain
        self.task_names = tuple(DOMAINS[domain].tasks)

    def infer(self, reward):
        return np.zeros((2, 3))

    def act(self, obs, z):
        assert obs.shape == (2, DOMAINS[self.domain].obs_dim) and z.shape == (2, 3)
        return np.array([[0.0], [1.0]]) * np.ones(DOMAINS[self.domain].action_dim)


def can_draw() -> bool:
    try:
        render_physics("cheetah", np.zeros((1, 18)), width=8, height=8)
    except ZsrlError:
        return False
    return True


# A machine without a GL library cannot draw; what it says then is tested below, everywhere.
draws = pytest.mark.skipif(not can_draw(), reason="no offscreen GL: apt-get install libosmesa6")


@draws
@pytest.mark.parametrize("name", DOMAINS)
def test_frames_show_the_body(name):
    sim = Simulator(name, 2)
    sim.reset([0, 1])
    physics = sim.physics()
    frames = render_physics(name, physics[[0, 1, 0]], width=96, height=64)
    assert frames.shape == (3, 64, 96, 3) and frames.dtype == np.uint8
    np.testing.assert_array_equal(frames[0], frames[2])
    assert (frames[0] != frames[1]).any()
    orange = (frames[0, ..., 0] > 1.3 * frames[0, ..., 2]) & (frames[0, ..., 0] > 90)
    least = 0.002 if name == "point_mass_maze" else 0.003  # a ball of some 17 pixels
    assert least < orange.mean() < 0.5  # dm_control's bodies are orange on blue


@draws
def test_up_is_up():
    """The sky is above the floor: rows are counted from above."""
    domain = DOMAINS["walker"]
    frame = render_physics("walker", np.zeros((1, domain.physics_dim)), 96, 64)[0]
    rows = np.flatnonzero(((frame[..., 0] > 1.3 * frame[..., 2]) & (frame[..., 0] > 90)).any(1))
    lifted = np.zeros((1, domain.physics_dim))
    lifted[0, 0] = -0.5  # the camera follows the body, so the floor's edge moves instead
    assert rows.size
    lower = render_physics("walker", lifted, 96, 64)[0]
    assert frame[:10].mean() < frame[-10:].mean()  # a dark sky above, a lit floor below
    assert (lower != frame).any()


def test_rollout_starts_each_seed_at_the_same_state():
    physics = rollout(Still(), np.zeros((2, 3)), seed=4, steps=5)
    assert physics.shape == (2, 6, 18)
    np.testing.assert_array_equal(physics[0, 0], physics[1, 0])
    assert (physics[0, 5] != physics[1, 5]).any()
    sim = Simulator("cheetah", 1)
    sim.reset([4])
    np.testing.assert_array_equal(physics[0, 0], sim.physics()[0])


@draws
def test_render_takes_a_member_and_a_rate():
    agent, z = Still(), np.zeros((2, 3))
    first = render(agent, z, member=0, steps=20, fps=25, width=64, height=48)
    second = render(agent, z, member=1, steps=20, fps=25, width=64, height=48)
    assert first.shape == (6, 48, 64, 3)  # 100 steps a second, every fourth drawn
    assert (first[-1] != second[-1]).any()
    with pytest.raises(DataError, match="2 training seed"):
        render(agent, z, member=2, steps=1)


def test_wrong_width_of_physics_is_told():
    with pytest.raises(DataError, match=r"expected \[T, 57\]"):
        render_physics("quadruped", np.zeros((2, 18)))


def test_no_gl_library_names_the_one_package(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    with pytest.raises(ZsrlError, match="apt-get install libosmesa6"):
        render_physics("cheetah", np.zeros((1, 18)))


def test_a_gl_library_that_fails_names_the_package_and_the_variable(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setitem(sys.modules, "mujoco.osmesa", SimpleNamespace())
    with pytest.raises(ZsrlError, match="libosmesa6 and set MUJOCO_GL=osmesa"):
        render_physics("cheetah", np.zeros((1, 18)))


@pytest.fixture
def film(monkeypatch, tmp_path):
    """Run the command on an agent of ours, with flags."""
    monkeypatch.setattr(zsrl_jax, "load", lambda workdir: Still())

    def run(*given):
        small = ["--seconds=0.4", "--width=64", "--height=48"]
        flags.FLAGS(["video", *small, *given])
        video.main(["video", str(tmp_path)])
        return sorted(path.name for path in tmp_path.iterdir())

    yield run
    flags.FLAGS.unparse_flags()
    for name in ("task", "format"):
        flags.FLAGS[name].unparse()


@draws
def test_a_gif_of_one_task(film, tmp_path):
    assert film("--task=run", "--format=gif") == ["cheetah_run.gif"]
    with Image.open(tmp_path / "cheetah_run.gif") as gif:
        assert gif.size == (64, 48)
        assert gif.n_frames > 5
        assert gif.info["duration"] == 40


@draws
def test_a_film_of_each_task(film):
    wanted = [f"cheetah_{task}.gif" for task in DOMAINS["cheetah"].tasks]
    assert film("--format=gif") == sorted(wanted)


@draws
def test_mp4_goes_through_ffmpeg(film, tmp_path, monkeypatch):
    encoder = tmp_path.parent / "bin" / "ffmpeg"
    encoder.parent.mkdir(exist_ok=True)
    encoder.write_text('#!/bin/sh\nfor last; do :; done\n/bin/cat > "$last"\n')
    encoder.chmod(0o755)
    monkeypatch.setenv("PATH", str(encoder.parent))
    assert film("--task=walk", "--format=auto") == ["cheetah_walk.mp4"]
    assert (tmp_path / "cheetah_walk.mp4").stat().st_size == 11 * 48 * 64 * 3  # raw frames


def test_what_cannot_be_filmed_is_told(film, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="apt-get install ffmpeg"):
        film("--task=run", "--format=mp4")
    with pytest.raises(TaskError, match="did you mean 'run'"):
        film("--task=rum", "--format=gif")
    with pytest.raises(ConfigError, match="one run folder"):
        video.main(["video"])
