"""The maze: walls hold, speeds are the field's, all four goals can be reached from the start."""

import numpy as np
import pytest

from zsrl_jax.envs import DOMAINS, Simulator, relabel
from zsrl_jax.envs.domains import point_mass_maze as maze

WAYS = {  # points on the way from the top left room to each goal, around the ends of the cross
    "reach_top_left": [],
    "reach_top_right": [(0.0, 0.22)],
    "reach_bottom_left": [(-0.22, 0.0)],
    "reach_bottom_right": [(0.0, 0.22), (0.22, 0.0)],
}


def walk(task, seeds):
    """Walk to a goal by a hand-written controller; return the rewards [step, episode]."""
    sim, rewards = Simulator("point_mass_maze", len(seeds), 1), []
    obs, reached = sim.reset(seeds), np.zeros(len(seeds), int)
    points = np.array([*WAYS[task], maze.GOALS[task]])
    for _ in range(1000):
        aim = points[reached]
        near = np.linalg.norm(obs[:, :2] - aim, axis=1) < 0.02
        reached = np.minimum(reached + near, len(points) - 1)
        action = np.clip(40 * (points[reached] - obs[:, :2]) - 4 * obs[:, 2:], -1, 1)
        obs = sim.step(action)
        rewards.append(relabel("point_mass_maze", task, sim.physics()))
    assert not sim.blown().any()
    return np.stack(rewards)


@pytest.mark.parametrize("task", maze.GOALS)
def test_every_goal_can_be_reached_in_time(task):
    returns = walk(task, range(4)).sum(axis=0)
    assert (returns > 650).all() and (returns < 1000).all(), returns


def test_the_cross_cannot_be_crossed():
    inner = np.array([[0.1, 0.1], [0.1, -0.1]])
    for action, wall in (([-1.0, 0.0], 0), ([0.0, 0.0], None)):
        sim = Simulator(DOMAINS["point_mass_maze"]._replace(start=at(inner)), 2, 1)
        obs = sim.reset([0, 1])
        for _ in range(300):
            obs = sim.step(np.tile(action, (2, 1)))
        expected = inner.copy()
        if wall is not None:
            expected[:, wall] = 0.03  # half a wall and the ball
        np.testing.assert_allclose(obs[:, :2], expected, atol=2e-3)


def at(places):
    places = iter(places)

    def start(model, data, random):
        data.qpos[:] = next(places)

    return start


def test_the_ball_moves_at_most_a_tenth_of_a_metre_per_second():
    sim = Simulator("point_mass_maze", 1, 1)
    sim.reset([0])
    fastest = max(abs(sim.step(np.array([[0.0, -1.0]]))[0, 3]) for _ in range(100))
    assert fastest == pytest.approx(0.1, rel=0.01)


def test_starts():
    fair, wide = maze.DOMAIN, maze.DOMAIN._replace(start=maze.start_anywhere)
    obs = Simulator(fair, 200, 1).reset(range(200))[:, :2]
    assert (obs > maze.LOW).all() and (obs < maze.HIGH).all()
    obs = Simulator(wide, 200, 1).reset(range(200))[:, :2]
    assert (np.abs(obs) >= maze.WALL).all() and (np.abs(obs) <= 0.29).all()
    rooms = {tuple(room) for room in np.sign(obs).astype(int).tolist()}
    assert len(rooms) == 4
