"""What a domain is: a MuJoCo model, its observation, its named quantities and its tasks.

A domain is a value, not a class to derive from. Simulation, relabelling and pictures all take this
value, so a domain of your own is one file that builds one `Domain`: docs/environments.md has a
complete example.
"""

import functools
import importlib.util
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import mujoco
import numpy as np

Reward = Callable[[Any], Any]
Start = Callable[[mujoco.MjModel, mujoco.MjData, np.random.RandomState], None]


class Quantities(NamedTuple):
    """Named quantities of a state, in metres, radians, kilograms and seconds.

    speed: forward speed; height: torso height; uprightness: torso z-axis on the world's, in
    [-1, 1]; angular_momentum and center_of_mass: of the whole body, world axes, last axis 3.
    """

    speed: jax.Array
    height: jax.Array
    uprightness: jax.Array
    angular_momentum: jax.Array
    center_of_mass: jax.Array
    joint_angle: jax.Array
    joint_speed: jax.Array


class Domain(NamedTuple):
    """A model, how an episode starts, its observation, its named quantities and its tasks."""

    name: str
    obs_dim: int
    action_dim: int
    physics_dim: int
    substeps: int
    model: Callable[[], mujoco.MjModel]
    start: Start
    observe: Callable[[Any], np.ndarray]
    quantities: Callable[[jax.Array], Any]
    tasks: Mapping[str, Reward]
    settle: int = 0
    episode_length: int = 1000
    camera: str | int = -1
    standing: Start | None = None  # a start for collections (on its feet), if `start` is narrow
    pushed: bool = False  # explorers push it: noise alone hardly moves it from where it lies
    texts: Mapping[str, str] = {}  # tasks as reward texts over the quantities, if they have one
    xml: Callable[[], Mapping[str, str]] | None = None  # the model's files by name, first the main


def often_standing(domain: Domain, share: float) -> Domain:
    """Return the domain with this share of its episodes started on its feet."""
    upright, fair = domain.standing, domain.start
    if upright is None or not share:
        return domain

    def start(model, data, random):
        (upright if random.uniform() < share else fair)(model, data, random)

    return domain._replace(start=start)


def suite_file(name: str) -> pathlib.Path:
    """Return the path of a dm_control suite model without importing dm_control (and its GL)."""
    spec = importlib.util.find_spec("dm_control")
    assert spec is not None and spec.submodule_search_locations
    return pathlib.Path(spec.submodule_search_locations[0]) / "suite" / name


def suite_files(name: str) -> dict[str, str]:
    """Return a suite model's text and those that it includes, by name: the model first."""
    main, found = suite_file(name), {}
    for part in [name, *re.findall(r'<include\s+file="\./([^"]+)"', main.read_text())]:
        found[part] = (main.parent / part).read_text()
    return found


@functools.cache
def suite_model(name: str) -> mujoco.MjModel:
    """Compile an unchanged dm_control suite model, once per process.

    The model uses a deprecated attribute. The compiler's warning about it, and the log file that
    MuJoCo would write to the working folder, are suppressed: the user cannot change the model.
    """
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        return mujoco.MjModel.from_xml_path(str(suite_file(name)))
    finally:
        mujoco.set_mju_user_warning(handler)
