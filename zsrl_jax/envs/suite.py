"""The sixteen tasks as ordinary dm_control environments, for its viewer and its wrappers.

dm_control has six of them. Six more are its own physics and task classes with another reward,
written with its `rewards.tolerance` and its sensors. The four of the maze are a domain of our own.
They share no arithmetic with the closed forms of this package, so tests compare the two.

    from zsrl_jax.envs import suite
    env = suite.load("walker", "flip", random=0)          # a dm_control Environment
    from dm_control import viewer; viewer.launch(env)

Importing this module imports dm_control (and with it a GL library); `zsrl_jax.envs` does not.
"""

import types
from collections.abc import Callable
from typing import Any

import dm_control.suite
import numpy as np
from dm_control import mujoco
from dm_control.rl import control
from dm_control.suite import base, cheetah, common, quadruped, walker
from dm_control.utils import containers, rewards

from zsrl_jax.envs.domains import point_mass_maze as maze
from zsrl_jax.envs.registry import find_task

FOREVER = float("inf")


class Cheetah(cheetah.Cheetah):
    """The cheetah rewarded for a speed forwards (direction 1) or backwards (-1)."""

    def __init__(self, direction: float, speed: float, random: Any = None):
        super().__init__(random=random)
        self._direction, self._speed = direction, speed

    def get_reward(self, physics: Any) -> float:
        """Return the linear tolerance of the directed speed."""
        return rewards.tolerance(
            self._direction * physics.speed(),
            bounds=(self._speed, FOREVER),
            margin=self._speed,
            value_at_margin=0,
            sigmoid="linear",
        )


class Flip(walker.PlanarWalker):
    """The walker rewarded for angular momentum about the y-axis while standing tall."""

    def __init__(self, momentum: float = 5.0, random: Any = None):
        super().__init__(move_speed=0, random=random)
        self._momentum = momentum

    def get_reward(self, physics: Any) -> float:
        """Return dm_control's stand reward times the tolerance of the angular momentum."""
        turning = rewards.tolerance(
            physics.named.data.subtree_angmom["torso"][1],
            bounds=(self._momentum, FOREVER),
            margin=self._momentum,
            value_at_margin=0,
            sigmoid="linear",
        )
        return super().get_reward(physics) * (5 * turning + 1) / 6


class Stand(quadruped.Move):
    """The quadruped rewarded for an upright torso."""

    def __init__(self, random: Any = None):
        super().__init__(desired_speed=0, random=random)

    def get_reward(self, physics: Any) -> Any:
        """Return 1 for an upright torso, 0 for one upside down."""
        upright = physics.torso_upright()
        return rewards.tolerance(
            upright, bounds=(1, FOREVER), sigmoid="linear", margin=2, value_at_margin=0
        )


class Jump(Stand):
    """The quadruped rewarded for an upright torso and a high centre of mass."""

    def get_reward(self, physics: Any) -> Any:
        """Return the upright reward times the tolerance of the centre of mass's height."""
        height = np.asarray(physics.named.data.sensordata["center_of_mass"][2])
        lifted = rewards.tolerance(
            height, bounds=(1, FOREVER), sigmoid="linear", margin=1, value_at_margin=0.5
        )
        return super().get_reward(physics) * lifted


class Reach(base.Task):
    """The ball rewarded for being where a site of the maze is."""

    def __init__(self, site: str, random: Any = None):
        super().__init__(random=random)
        self._site = site

    def initialize_episode(self, physics: Any) -> None:
        """Put the ball into the top left room."""
        physics.data.qpos[:] = self.random.uniform(maze.LOW, maze.HIGH)
        super().initialize_episode(physics)

    def get_observation(self, physics: Any) -> dict[str, Any]:
        """Return position and velocity."""
        return {"position": physics.position(), "velocity": physics.velocity()}

    def get_reward(self, physics: Any) -> Any:
        """Return the tolerance of the distance between ball and site, seen from above."""
        data = physics.named.data
        away = data.geom_xpos["ball", :2] - data.site_xpos[self._site, :2]
        return rewards.tolerance(np.linalg.norm(away), bounds=(0, maze.NEAR), margin=maze.NEAR)


def _in_maze(task_name: str) -> Callable[..., Any]:
    """Return a dm_control task constructor for a goal of the maze."""

    def task(
        time_limit: float = 20, random: Any = None, environment_kwargs: dict | None = None
    ) -> control.Environment:
        physics = mujoco.Physics.from_xml_path(str(maze.FILE))
        goal = Reach(task_name.removeprefix("reach_"), random)
        return control.Environment(
            physics, goal, time_limit=time_limit, **(environment_kwargs or {})
        )

    return task


def _planar(module: Any, make_task: Callable[[Any], Any], **settings: Any) -> Callable[..., Any]:
    """Return a dm_control task constructor for a planar domain."""

    def task(
        time_limit: float = module._DEFAULT_TIME_LIMIT,
        random: Any = None,
        environment_kwargs: dict | None = None,
    ) -> control.Environment:
        physics = module.Physics.from_xml_string(*module.get_model_and_assets())
        options = {**settings, **(environment_kwargs or {})}
        return control.Environment(physics, make_task(random), time_limit=time_limit, **options)

    return task


def _bare_floor(make_task: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a dm_control task constructor for the quadruped on a floor alone."""

    def task(
        time_limit: float = quadruped._DEFAULT_TIME_LIMIT,
        random: Any = None,
        environment_kwargs: dict | None = None,
    ) -> control.Environment:
        xml = quadruped.make_model(floor_size=10)
        physics = quadruped.Physics.from_xml_string(xml, common.ASSETS)
        options = {
            "control_timestep": quadruped._CONTROL_TIMESTEP,
            **(environment_kwargs or {}),
        }
        return control.Environment(physics, make_task(random), time_limit=time_limit, **options)

    return task


def _ours() -> dict[tuple[str, str], Callable[..., Any]]:
    step = {"control_timestep": walker._CONTROL_TIMESTEP}
    return {
        ("cheetah", "walk"): _planar(cheetah, lambda random: Cheetah(1, 2, random)),
        ("cheetah", "walk_backward"): _planar(cheetah, lambda random: Cheetah(-1, 2, random)),
        ("cheetah", "run_backward"): _planar(cheetah, lambda random: Cheetah(-1, 10, random)),
        ("walker", "flip"): _planar(walker, lambda random: Flip(random=random), **step),
        ("quadruped", "stand"): _bare_floor(Stand),
        ("quadruped", "jump"): _bare_floor(Jump),
        **{(maze.DOMAIN.name, name): _in_maze(name) for name in maze.GOALS},
    }


def register() -> None:
    """Add the ten tasks to dm_control's suite, so that its own `suite.load` finds them."""
    if maze.DOMAIN.name not in dm_control.suite._DOMAINS:
        ours = types.ModuleType(maze.DOMAIN.name, maze.__doc__)
        ours.SUITE = containers.TaggedTasks()  # type: ignore[attr-defined]
        dm_control.suite._DOMAINS[maze.DOMAIN.name] = ours
        setattr(dm_control.suite, maze.DOMAIN.name, ours)
    for (domain, name), task in _ours().items():
        table = getattr(dm_control.suite, domain).SUITE
        if name not in table:
            task.__name__ = name
            table.add("zsrl_jax")(task)


def load(domain: str, task: str, random: Any = None, **kwargs: Any) -> control.Environment:
    """Return a task as a dm_control environment; kwargs go to dm_control's `suite.load`."""
    find_task(domain, task)
    register()
    return dm_control.suite.load(domain, task, task_kwargs={"random": random}, **kwargs)
