"""A store on the host, fed by a thread, trains to the very parameters of a resident one."""

import threading

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.learners import POLICY, build
from helpers.small_data import counter_dataset

from zsrl_jax import td3, train
from zsrl_jax.data import fit_normalizer, store_bytes, to_device
from zsrl_jax.seeds import over_seeds, seed_keys
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.tasks import SAMPLERS
from zsrl_jax.training import streaming
from zsrl_jax.training.loop import make_loop, stream_keys


def run_hosted(learner, hosted, keys, lengths):
    """Train as a stage does, chunk by chunk and window by window."""
    state = over_seeds(learner.init, (0,))(stream_keys(keys, 0))
    sample, axes, start = hosted.sample_of(learner), hosted.seed_axes(), 0
    programs: dict = {}
    for length in lengths:
        for first, num, part in hosted.windows(stream_keys(keys, 1), start, length):
            if num not in programs:
                loop = make_loop(sample, learner.update, num)
                programs[num] = over_seeds(loop, (0, 0, axes, None))
            state, _ = programs[num](state, stream_keys(keys, 1), part, first)
        start += length
    return state


@pytest.mark.parametrize("name", ["byol_gamma", "policy"])
def test_the_fed_scan_is_the_resident_one(name, noise_dataset):
    learner, data = build(name, noise_dataset)
    keys = seed_keys(3, 2)
    loop = over_seeds(make_loop(learner.sample, learner.update, 7), (0, 0, None, None))
    state = over_seeds(learner.init, (0,))(stream_keys(keys, 0))
    resident, _ = loop(state, stream_keys(keys, 1), data, 0)
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"), streaming.host())
    hosted = streaming.Hosted(store, learner.sample, streaming.take_drawn, window=3)
    if name == "policy":
        section = get_cell("cheetah", "fb", "uniform", "paper").policy
        section.update(POLICY)
        label = td3.make_label(section, lambda w, obs: obs @ w, SAMPLERS["uniform"])
        parts = streaming.policy_halves(td3.make_draw(section), label)
        hosted = streaming.Hosted(store, *parts, window=3, rest=data._replace(store=None))
    chex.assert_trees_all_equal(run_hosted(learner, hosted, keys, [4, 3]), resident)


def test_windows_are_drawn_ahead_by_another_thread_with_the_device_s_keys():
    data = counter_dataset([4, 7, 2])
    store = to_device(data, fit_normalizer(data, "none"), streaming.host())
    keys, seen = stream_keys(seed_keys(0, 2), 1), []

    def draw(key, store):
        seen.append(threading.current_thread().name)  # while it is traced
        return store.obs[jax.random.randint(key, (5,), 0, 3), 0]

    hosted = streaming.Hosted(store, draw, streaming.take_drawn, window=4)
    parts = list(hosted.windows(keys, 10, 10))
    assert [(first, num) for first, num, _ in parts] == [(10, 4), (14, 4), (18, 2)]
    assert all(name.startswith("draw_ahead") for name in seen)
    drawn = np.concatenate([np.asarray(part.drawn) for _, _, part in parts], axis=1)
    for seed in range(2):
        for i in range(10):
            key = jax.random.split(jax.random.fold_in(keys[seed], 10 + i))[0]
            np.testing.assert_array_equal(drawn[seed, i], draw(key, store))
    assert jnp.ndim(parts[1][2].at(15).drawn) == 3


def test_what_fails_in_the_thread_is_told():
    data = counter_dataset([4])
    store = to_device(data, fit_normalizer(data, "none"), streaming.host())

    def broken(key, store):
        raise ValueError("no draw today")

    hosted = streaming.Hosted(store, broken, streaming.take_drawn, window=4)
    with pytest.raises(ValueError, match="no draw today"):
        list(hosted.windows(seed_keys(0, 1), 0, 8))


def test_the_budget_decides(noise_dataset):
    size = store_bytes(noise_dataset)
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    assert size == sum(x.nbytes for x in store[:3])
    assert streaming.is_too_large(size, size / 2**30 * 0.9)
    assert not streaming.is_too_large(size, size / 2**30 * 1.1)
    assert not streaming.is_too_large(size, 0.0)  # the processor itself: nothing to ship to


def test_a_whole_run_fed_from_the_host_is_the_resident_run(noise_dataset, tmp_path):
    config = get_cell("other", "lra_p", "subtraj", "smoke")
    config.update({"encoder": {"updates": 20}, "policy": {"updates": 20, "feature_gib": 0.0}})
    agents = []
    for gib in (0.0, 1e-9):
        config.data.device_gib, config.data.feed_updates = gib, 10
        agents.append(train(config, noise_dataset, tmp_path / str(gib), quiet=True))
    one, other = (agent.params for agent in agents)
    chex.assert_trees_all_equal(one.actor, other.actor)
    chex.assert_trees_all_equal(one.encoder, other.encoder)
    chex.assert_trees_all_equal(one.tasks, other.tasks)
