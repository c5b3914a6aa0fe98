"""The loader and the sampler never shift, cross or invent a row."""

import jax
import numpy as np
import pytest
from helpers.small_data import counter_dataset, write_counters

from zsrl_jax.data import Dataset, fit_normalizer, load_dataset, to_device
from zsrl_jax.data.formats import exorl
from zsrl_jax.data.sampling import draw_states, draw_transitions
from zsrl_jax.errors import DamageError, DataError


def test_transition_pairs_each_state_with_the_action_that_led_to_it(tmp_path):
    write_counters(tmp_path / "buffer", ["episode_0_5.npz", "episode_1_5.npz"])
    data = load_dataset(tmp_path)
    assert data.obs.shape == (2, 6, 17) and data.action.shape == (2, 5, 6)
    assert data.domain == "cheetah" and data.num_transitions == 10
    # ExORL: action[t] led to observation[t]; row 0's action is a dummy and must not appear
    np.testing.assert_allclose(data.action[1, :, 0], 1e-5 * (100 + np.arange(1, 6)), rtol=1e-6)
    np.testing.assert_array_equal(data.reward[1], 100 + np.arange(1, 6))
    np.testing.assert_array_equal(data.obs[1, :, 0], 100 + np.arange(0, 6))
    np.testing.assert_array_equal(data.physics[1, :, 0], 100 + np.arange(0, 6))


def test_reward_belongs_to_the_state_after_the_action(tmp_path):
    write_counters(tmp_path, ["episode_0_5.npz", "episode_1_5.npz"])
    data = load_dataset(tmp_path)
    store = to_device(data, fit_normalizer(data, "none"))
    batch = draw_transitions(jax.random.key(0), store, 500)
    # the file's action and reward of a row are those of the state reached
    np.testing.assert_allclose(batch.action[:, 0], 1e-5 * batch.next_obs[:, 0], rtol=1e-6)
    episode, row = data.reached(10)
    np.testing.assert_array_equal(data.physics[episode, row, 0], data.obs[episode, row, 0])
    assert row.min() >= 1


def test_samples_stay_inside_their_episode_and_cover_it():
    lengths = [4, 7, 2]
    data = counter_dataset(lengths)
    store = to_device(data, fit_normalizer(data, "none"))
    batch = jax.device_get(draw_transitions(jax.random.key(1), store, 4000))
    np.testing.assert_array_equal(batch.next_obs, batch.obs + 1)
    np.testing.assert_array_equal(batch.action, -batch.obs[:, :2])
    seen = {(int(x) // 1000, int(x) % 1000) for x in batch.obs[:, 0]}
    assert seen == {(e, t) for e, length in enumerate(lengths) for t in range(length)}
    count = np.bincount(batch.episode)
    np.testing.assert_allclose(count / 4000, np.array(lengths) / 13, atol=0.03)
    states = np.asarray(draw_states(jax.random.key(2), store, 1000))[:, 0]
    assert (states % 1000 >= 1).all()


def test_order_is_that_of_collection_whatever_the_padding(tmp_path):
    write_counters(tmp_path, [f"episode_{i}_5.npz" for i in (10, 2, 1)])
    np.testing.assert_array_equal(load_dataset(tmp_path).obs[:, 0, 0], [100, 200, 1000])
    assert load_dataset(tmp_path, max_episodes=2).num_episodes == 2


def test_timestamps_come_before_numbers(tmp_path):
    write_counters(tmp_path, ["20220102T000000_1_5.npz", "20220101T000000_7_5.npz"])
    np.testing.assert_array_equal(load_dataset(tmp_path).obs[:, 0, 0], [700, 100])


def test_exorl_tree_is_found_below_its_root(tmp_path):
    write_counters(tmp_path / "datasets/cheetah/rnd/buffer", ["episode_0_5.npz"])
    found = exorl.find_buffer(tmp_path, "cheetah", "rnd")
    assert found == tmp_path / "datasets/cheetah/rnd/buffer"


def test_written_episode_reads_back_the_same(tmp_path):
    draw = np.random.default_rng(0)
    obs, action = draw.normal(size=(6, 17)), draw.uniform(-1, 1, (5, 6))
    physics = draw.normal(size=(6, 18))
    file = exorl.write_episode(tmp_path, 3, obs, action, physics)
    assert file.name == "episode_000003_5.npz"
    with np.load(file) as raw:
        shapes = {key: (raw[key].shape, raw[key].dtype) for key in raw.files}
        np.testing.assert_array_equal(raw["action"][0], 0)
    assert shapes["observation"] == ((6, 17), np.float32)
    assert shapes["action"] == ((6, 6), np.float32)
    assert shapes["reward"] == shapes["discount"] == ((6, 1), np.float32)
    assert shapes["physics"] == ((6, 18), np.float64)
    data = load_dataset(tmp_path)
    np.testing.assert_array_equal(data.obs[0], obs.astype(np.float32))
    np.testing.assert_array_equal(data.action[0], action.astype(np.float32))
    np.testing.assert_array_equal(data.physics[0], physics)


def test_normalizer_is_mean_and_deviation_without_padding():
    data = counter_dataset([4, 2])
    valid = np.concatenate([np.arange(5.0), 1000 + np.arange(3.0)])
    normalizer = fit_normalizer(data, "standard")
    np.testing.assert_allclose(normalizer.mean, valid.mean(), rtol=1e-6)
    np.testing.assert_allclose(normalizer.scale, valid.std(), rtol=1e-6)
    wild = np.full((1, 3), 1e9, np.float32)
    np.testing.assert_array_equal(normalizer(wild), 10.0)


def test_a_padded_store_trains_like_the_same_arrays():
    data = counter_dataset([4, 7, 2])
    episodes = list(data.episodes())
    assert [len(e.obs) for e in episodes] == [5, 8, 3]
    again = Dataset.from_arrays(
        [e.obs for e in episodes],
        [e.action * 1e-5 for e in episodes],
        terminal=[np.arange(len(e.action)) == 1 for e in episodes],
        reward=[e.obs[1:, 0] for e in episodes],
    )
    np.testing.assert_array_equal(again.obs[0, :5], data.obs[0, :5])
    np.testing.assert_array_equal(again.obs[0, 5:], 0)
    np.testing.assert_array_equal(again.length, [4, 7, 2])
    np.testing.assert_array_equal(again.discount[2], [1, 0, 0, 0, 0, 0, 0])
    assert again.domain is None and again.reward[1, 6] == 1007
    with pytest.raises(DamageError, match="'number 1', key 'obs': expected 7 rows"):
        Dataset.from_arrays(data.obs[:2], [data.action[0] * 0, data.action[1, :6] * 0])


def test_wrong_folder_is_named(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        load_dataset(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no ExORL episodes"):
        load_dataset(tmp_path)
    with pytest.raises(DataError, match="did you mean 'exorl'"):
        load_dataset(tmp_path, format="exorll")
