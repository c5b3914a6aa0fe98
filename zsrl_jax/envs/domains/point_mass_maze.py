"""A ball in a maze: reach the middle of one of four rooms, between walls that form a cross.

    reach_*  = near(|(x, y) - goal|),   near(d) = 1 for d <= 0.015 m, 0.1^(((d - 0.015)/0.015)^2)
    goals      (-0.15, 0.15) top left, (0.15, 0.15) top right, and the same with y = -0.15: bottom

ExORL's fourth domain, with a model of our own in dm_control's style: sizes, mass, damping and
motors are those of the field, so the ball moves at most 0.1 m/s along each axis. Every episode
starts in the top left room. The field multiplies the reward by a bonus of up to a fifth for small
actions; a reward here is of the state alone, so the bonus is left out. Collected episodes may start
in any room (`standing`, with the recipe's share of that name).
"""

import functools
from pathlib import Path
from typing import NamedTuple

import jax
import mujoco
import numpy as np
from mujoco.batch import Batch

from zsrl_jax.envs.domain import Domain, Reward
from zsrl_jax.envs.tolerance import gaussian

FILE = Path(__file__).parents[1] / "models" / "point_mass_maze.xml"
NEAR = 0.015  # m: inside the whole reward, one tenth at twice that distance
GOALS = {
    "reach_top_left": (-0.15, 0.15),
    "reach_top_right": (0.15, 0.15),
    "reach_bottom_left": (-0.15, -0.15),
    "reach_bottom_right": (0.15, -0.15),
}
LOW, HIGH = (-0.29, 0.15), (-0.15, 0.29)  # of x and y where an episode starts
WALL = 0.035  # half a wall and the ball, and some room


class MazeQuantities(NamedTuple):
    """Where the ball is and how fast it moves, in metres and seconds."""

    x: jax.Array
    y: jax.Array
    speed_x: jax.Array
    speed_y: jax.Array


@functools.cache
def model() -> mujoco.MjModel:
    """Return the maze, compiled once per process."""
    return mujoco.MjModel.from_xml_path(str(FILE))


def start(model: mujoco.MjModel, data: mujoco.MjData, random: np.random.RandomState) -> None:
    """Put the ball into the top left room."""
    data.qpos[:] = random.uniform(LOW, HIGH)


def start_anywhere(
    model: mujoco.MjModel, data: mujoco.MjData, random: np.random.RandomState
) -> None:
    """Put the ball anywhere, except into the cross."""
    side = random.choice([-1, 1], 2)
    data.qpos[:] = side * random.uniform(WALL, model.jnt_range[:, 1])


def observe(data: Batch) -> np.ndarray:
    """Return position and velocity."""
    return np.concatenate([data.qpos, data.qvel], axis=1)


def quantities(physics: jax.Array) -> MazeQuantities:
    """Return the named quantities of states [..., 4]."""
    return MazeQuantities(*(physics[..., i] for i in range(4)))


def _reach(goal: tuple[float, float]) -> Reward:
    def reward(physics: jax.Array) -> jax.Array:
        q = quantities(physics)
        distance = ((q.x - goal[0]) ** 2 + (q.y - goal[1]) ** 2) ** 0.5
        return gaussian(-distance, -NEAR, NEAR)

    return reward


def _text(goal: tuple[float, float]) -> str:
    x, y = (f"{axis}{-place:+g}" for axis, place in zip("xy", goal, strict=True))
    return f"gaussian(-sqrt(({x})**2 + ({y})**2), -{NEAR}, {NEAR})"


DOMAIN = Domain(
    name="point_mass_maze",
    obs_dim=4,
    action_dim=2,
    physics_dim=4,
    substeps=1,
    model=model,
    start=start,
    observe=observe,
    quantities=quantities,
    tasks={name: _reach(goal) for name, goal in GOALS.items()},
    camera="above",
    standing=start_anywhere,
    texts={name: _text(goal) for name, goal in GOALS.items()},
    xml=lambda: {FILE.name: FILE.read_text()},
)
