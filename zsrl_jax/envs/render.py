"""Pictures of states and of an agent's episodes, without a screen.

The GL library is chosen when the first picture is drawn, never at import: MUJOCO_GL if it is set,
else EGL, else OSMesa, whichever library is installed.
"""

import contextlib
import copy
import ctypes.util
import importlib
import os
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np

from zsrl_jax.envs.adapter import Factory, adapt, refuse_instance
from zsrl_jax.envs.domain import Domain
from zsrl_jax.envs.registry import find_domain
from zsrl_jax.envs.simulator import Simulator
from zsrl_jax.errors import DataError, TaskError, ZsrlError, missing_domain

BACKENDS = ("egl", "osmesa", "glfw")
OFFSCREEN = {"egl": ("EGL", "GL"), "osmesa": ("OSMesa",)}  # and the libraries each needs
PACKAGE = "libosmesa6"
MAX_GEOMS = 1000


class RenderError(ZsrlError):
    """There is no GL library to draw with."""


def render_physics(
    domain: str | Domain,
    physics: Any,
    width: int = 320,
    height: int = 240,
    camera: str | int | None = None,
) -> np.ndarray:
    """Draw states [T, P] of a domain; return frames [T, height, width, 3] of uint8."""
    found = find_domain(domain)
    states = np.asarray(physics, np.float64)
    if states.ndim != 2 or states.shape[1] != found.physics_dim:
        raise DataError(f"physics {states.shape}: expected [T, {found.physics_dim}]")
    model = copy.copy(found.model())
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    data, frames = mujoco.MjData(model), np.empty((len(states), height, width, 3), np.uint8)
    with _canvas(model, width, height, found.camera if camera is None else camera) as draw:
        for state, frame in zip(states, frames, strict=True):
            data.qpos, data.qvel, data.act = np.split(state, [model.nq, model.nq + model.nv])
            mujoco.mj_fwdPosition(model, data)
            frame[:] = draw(data)[::-1]  # GL's first row is the lowest
    return frames


def render_environment(
    agent: Any, z: Any, environment: Factory, member: int = 0, seed: int = 0,
    steps: int | None = None, **picture: Any
) -> np.ndarray:  # fmt: skip
    """Return frames of an episode in an environment of the user's, drawn by itself.

    dm_control draws with `physics.render`, Gymnasium with `render` (render_mode="rgb_array").
    """
    refuse_instance(environment)
    env, z = adapt(environment), np.asarray(z)
    if env.draw is None:
        raise DataError(
            "the environment draws nothing: expected one with physics.render (dm_control), or "
            "with render and render_mode='rgb_array' (Gymnasium)"
        )
    obs = env.reset(seed)
    frames = [env.draw(picture)]
    for _ in range(1000 if steps is None else steps):
        obs, _, ended = env.step(np.asarray(agent.act(obs, z))[member])
        frames.append(env.draw(picture))
        if ended:
            break
    return np.stack([np.asarray(frame, np.uint8) for frame in frames])


def rollout(agent: Any, z: Any, seed: int = 0, steps: int | None = None) -> np.ndarray:
    """Play one episode from one start per training seed; return physics [seed, T + 1, P]."""
    domain, z = find_domain(agent.domain), np.asarray(z)
    simulator = Simulator(domain, len(z))
    obs = simulator.reset(np.full(len(z), seed))
    seen = [simulator.physics()]
    for _ in range(domain.episode_length if steps is None else steps):
        obs = simulator.step(np.asarray(agent.act(obs, z)))
        seen.append(simulator.physics())
    return np.stack(seen, axis=1)


def render(
    agent: Any,
    z: Any,
    *,
    member: int = 0,
    seed: int = 0,
    steps: int | None = None,
    fps: float | None = None,
    environment: Factory | None = None,
    **picture: Any,
) -> np.ndarray:
    """Return frames [T, H, W, 3] of an episode of an agent's training seed `member` under z.

    `seed` is the start; `fps` draws fewer frames than the simulation has steps (its own rate by
    default); width, height and camera are those of render_physics. `environment` is a factory of
    an environment of your own, which draws itself; its frames are all kept.
    """
    if not -len(z) <= member < len(z):
        raise DataError(f"member {member}: the agent has {len(z)} training seed(s)")
    if environment is not None:
        return render_environment(agent, z, environment, member, seed, steps, **picture)
    if agent.domain is None:
        raise TaskError(missing_domain(None, "give environment=, a factory of yours"))
    physics = rollout(agent, z, seed, steps)
    stride = 1 if fps is None else max(1, round(frame_rate(agent.domain) / fps))
    return render_physics(agent.domain, physics[member, ::stride], **picture)


def frame_rate(domain: str | Domain) -> float:
    """Return a domain's control steps per second."""
    found = find_domain(domain)
    return float(1 / (found.substeps * found.model().opt.timestep))


def _backend() -> str:
    """Return the name of an installed GL library, or name the package that has one."""
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in BACKENDS:
        return asked
    for name, libraries in OFFSCREEN.items():
        if all(ctypes.util.find_library(library) for library in libraries):
            return name
    raise RenderError(f"no offscreen GL library found (EGL or OSMesa): apt-get install {PACKAGE}")


@contextlib.contextmanager
def _canvas(model: mujoco.MjModel, width: int, height: int, camera: str | int) -> Iterator[Any]:
    """Open a GL context; yield a function from data to pixels, lowest row first."""
    name = _backend()
    try:
        context = importlib.import_module(f"mujoco.{name}").GLContext(width, height)
        context.make_current()
        target = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    except Exception as error:  # PyOpenGL fails in many ways: AttributeError, ImportError, GLError
        raise RenderError(
            f"the GL library '{name}' does not work here ({type(error).__name__}): "
            f"apt-get install {PACKAGE} and set MUJOCO_GL=osmesa"
        ) from error
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, target)
    scene, view = mujoco.MjvScene(model, MAX_GEOMS), mujoco.MjvCamera()
    area, pixels = mujoco.MjrRect(0, 0, width, height), np.empty((height, width, 3), np.uint8)
    if camera == -1:
        mujoco.mjv_defaultFreeCamera(model, view)
    else:
        view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        view.fixedcamid = model.camera(camera).id
    options, everything = mujoco.MjvOption(), mujoco.mjtCatBit.mjCAT_ALL

    def draw(data: mujoco.MjData) -> np.ndarray:
        mujoco.mjv_updateScene(model, data, options, None, view, everything, scene)
        mujoco.mjr_render(area, scene, target)
        mujoco.mjr_readPixels(pixels, None, area, target)
        return pixels

    try:
        yield draw
    finally:
        target.free()
        context.free()
