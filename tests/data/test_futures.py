"""Geometric futures: the right law, never out of the episode."""

import jax
import numpy as np
from helpers.small_data import counter_dataset

from zsrl_jax.data import fit_normalizer, to_device
from zsrl_jax.data.sampling import draw_futures, draw_transitions


def drawn(lengths, discount, num=20_000):
    dataset = counter_dataset(lengths)
    store = to_device(dataset, fit_normalizer(dataset, "none"))
    batch = draw_transitions(jax.random.key(0), store, num)
    future = draw_futures(jax.random.key(1), store, batch, discount)
    ahead = np.asarray(future - batch.obs)
    assert (ahead == ahead[:, :1]).all()  # every coordinate of the same state
    return np.asarray(batch.episode), np.asarray(batch.step), ahead[:, 0]


def test_steps_ahead_are_geometric_until_the_last_state():
    lengths, discount = np.array([40, 7]), 0.8
    episode, step, ahead = drawn(lengths, discount)
    room = lengths[episode] - step
    assert ahead.min() == 1 and (ahead <= room).all()  # so never in another episode
    assert (ahead == room).any()  # the last state itself is reached
    for k in (1, 2, 5):  # P(K = k) = (1 - gamma) gamma^(k-1) where there is room
        free = room > k
        assert abs(np.mean(ahead[free] == k) - 0.2 * 0.8 ** (k - 1)) < 0.015
    short = room == 3  # what leads further stops at the end: P(K >= 3) = gamma^2
    assert abs(np.mean(ahead[short] == 3) - 0.64) < 0.05


def test_no_discount_is_the_next_state():
    assert (drawn([9, 5], 0.0, 500)[2] == 1).all()
