"""What encoders draw beside transitions, on data whose values tell where they stand.

A state is 1000 episode + row, an action minus the state in which it was taken: so a window, a next
action or a goal that is one row off is another number.
"""

import jax
import numpy as np
import pytest
from helpers.small_data import counter_dataset

from zsrl_jax.data import fit_normalizer, to_device
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.settings import fields

LENGTHS = np.array([9, 4, 2])


def drawn(name, num=2000, **own):
    dataset = counter_dataset(LENGTHS)
    config = fields.get_config("cheetah", name, "uniform").encoder
    config.update({"batch": num, "hidden": (4,), **own})
    store = to_device(dataset, fit_normalizer(dataset, "none"))
    batch, beside = ENCODERS[name].make(config, dataset.spec).sample(jax.random.key(0), store)
    return batch, jax.tree.map(np.asarray, beside), LENGTHS[np.asarray(batch.episode)]


def test_rldp_s_window_holds_the_actions_that_follow_and_what_they_lead_to():
    batch, window, length = drawn("rldp", horizon=5)
    now, step = np.asarray(batch.obs)[:, :1], np.asarray(batch.step)[:, None]
    ahead = np.arange(5)[None]
    inside = step + ahead < length[:, None]
    np.testing.assert_array_equal(window.inside, inside)
    np.testing.assert_array_equal(window.action[..., 0][inside], -(now + ahead)[inside])
    np.testing.assert_array_equal(window.reached[..., 0][inside], (now + ahead + 1)[inside])
    assert not inside.all() and inside[:, 0].all()
    np.testing.assert_array_equal(window.action[:, 0], batch.action)
    np.testing.assert_array_equal(window.reached[:, 0], batch.next_obs)


def test_fb_onestep_s_next_action_is_the_one_taken_in_the_next_state():
    batch, action, length = drawn("fb_onestep")
    last = np.asarray(batch.step) == length - 1
    expected = np.where(last[:, None], batch.action, -np.asarray(batch.next_obs)[:, :2])
    np.testing.assert_array_equal(action, expected)
    assert last.any() and not last.all()


@pytest.mark.parametrize("name", ["contrastive", "hilp"])
def test_a_future_lies_ahead_in_the_same_episode(name):
    own = {"random_goals": 0.0} if name == "hilp" else {}
    batch, future, length = drawn(name, discount=0.5, **own)
    ahead = (future - np.asarray(batch.obs))[:, 0]
    assert ((ahead >= 1) & (ahead <= length - np.asarray(batch.step))).all()
    free = length - np.asarray(batch.step) > 2
    assert np.mean(ahead[free] == 1) == pytest.approx(0.5, abs=0.05)  # k ~ Geom(1 - gamma)
    assert np.mean(ahead[free] == 2) == pytest.approx(0.25, abs=0.05)


def test_hilp_s_other_goals_are_states_of_any_episode():
    batch, goal, _ = drawn("hilp", random_goals=1.0)
    episode, row = np.divmod(goal[:, 0], 1000)
    assert (row >= 1).all() and (row <= LENGTHS[episode.astype(int)]).all()
    counts = np.bincount(episode.astype(int), minlength=3) / len(goal)
    np.testing.assert_allclose(counts, LENGTHS / LENGTHS.sum(), atol=0.04)
    assert np.mean(episode == np.asarray(batch.episode)) < 0.6
    batch, goal, _ = drawn("hilp", discount=0.0)  # else the next state
    near = np.mean((goal == np.asarray(batch.next_obs)).all(axis=1))
    assert near == pytest.approx(1 - 0.375 * (1 - 1 / LENGTHS.sum()), abs=0.04)
