"""The page of the maze: seen from above as a whole, and all that its rewards need is there."""

from helpers.untrained import make_agent

from zsrl_jax.web.description import describe


def test_the_maze_is_an_arena_and_robots_are_not():
    facts, arrays, files = describe(make_agent("point_mass_maze"), 0, [], None, "")
    assert facts["arena"] and list(files) == ["point_mass_maze.xml"]
    assert all(facts["quantities"].values())  # each is read from the simulation while it runs
    assert ["to the right wall", "x"] in facts["examples"]
    assert set(facts["tasks"]) == {f"reach_{v}_{h}" for v in ("top", "bottom")
                                   for h in ("left", "right")}  # fmt: skip
    assert len({tuple(x > 0 for x in start[:2]) for start in arrays["starts"]}) > 1
    assert not describe(make_agent("cheetah"), 0, [], None, "")[0]["arena"]
