"""Pushes: the share asked for, a corner that stays, and an episode's own numbers."""

import numpy as np
import pytest

from zsrl_jax.exploration.pushes import PUSH, WEAKEST, draw_pushes, pushed


def draw(share, episodes=range(100), seed=3):
    return draw_pushes(seed, episodes, (2000, 4), share)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_the_share_is_as_asked(share):
    assert (~np.isnan(draw(share)[..., 0])).mean() == pytest.approx(share, abs=0.03)


def test_a_push_is_a_corner_that_stays_for_some_steps():
    push = draw(0.3)
    in_push = ~np.isnan(push[..., 0])
    size = np.abs(push[in_push])
    np.testing.assert_array_equal(size, np.broadcast_to(size[:, :1], size.shape))
    assert size.min() >= WEAKEST and size.max() <= 1
    same = (push[:, 1:] == push[:, :-1]).all(axis=-1)
    assert in_push.sum() / (in_push.sum() - same.sum()) == pytest.approx(PUSH, rel=0.15)


def test_a_push_takes_the_place_of_what_was_chosen():
    push = np.array([[np.nan, np.nan], [-0.5, 0.5]])
    np.testing.assert_array_equal(pushed(push, np.full((2, 2), 0.2)), [[0.2, 0.2], [-0.5, 0.5]])


def test_an_episode_has_pushes_of_its_own_whoever_is_drawn_beside_it():
    together, alone = draw(0.3, range(5, 9)), draw(0.3, range(7, 8))
    np.testing.assert_array_equal(together[2], alone[0])
    assert not np.array_equal(together[1], together[2], equal_nan=True)
    assert not np.array_equal(draw(0.3, range(7, 8), seed=4), alone, equal_nan=True)
