"""docs/environments.md runs, and its hopper is dm_control's."""

import pathlib
import re

import dm_control.suite
import numpy as np
import pytest

from zsrl_jax.envs import DOMAINS, Simulator, relabel

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "environments.md"


@pytest.fixture(scope="module")
def page():
    """The names that the page's code defines, run from top to bottom."""
    before, names = dict(DOMAINS), {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 8
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    yield names
    DOMAINS.clear()
    DOMAINS.update(before)


def test_the_pages_values(page):
    assert page["frames"].shape == (2, 120, 160, 3)
    assert page["reward"].shape == (2,)
    assert page["force"].shape == (2, 3)
    assert page["returns"].shape == (2,)


def test_the_hopper_is_dm_controls(page):
    seeds, draw = [0, 1], np.random.default_rng(0)
    envs = [dm_control.suite.load("hopper", "hop", {"random": seed}) for seed in seeds]
    sim, steps = Simulator(page["HOPPER"], 2), 100

    def flat(timesteps):
        return np.stack(
            [np.concatenate([np.ravel(x) for x in t.observation.values()]) for t in timesteps]
        )

    np.testing.assert_array_equal(sim.reset(seeds), flat([env.reset() for env in envs]))
    wanted = []
    for _ in range(steps):
        action = draw.uniform(-1, 1, (2, 4))
        reached = [env.step(a) for env, a in zip(envs, action, strict=True)]
        np.testing.assert_array_equal(sim.step(action), flat(reached))
        wanted.append([t.reward for t in reached])
        found = relabel("hopper", "hop", sim.physics())
        np.testing.assert_allclose(found, wanted[-1], rtol=0, atol=1e-12)
    assert np.std(wanted) > 0.01
