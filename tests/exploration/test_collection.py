"""Collection: ExORL files, no reward seen, and a stopped run that ends like one never stopped."""

import fcntl
import os
import re
import shutil
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zsrl_jax import networks
from zsrl_jax.data import fit_normalizer, summary, to_device
from zsrl_jax.data.sampling import draw_ahead, draw_transitions
from zsrl_jax.devices import signals
from zsrl_jax.envs import DOMAINS, Simulator, quantities
from zsrl_jax.envs.domain import often_standing
from zsrl_jax.errors import ConfigError, DataError, LockedError, TaskError
from zsrl_jax.exploration import collection, collector, rnd
from zsrl_jax.files import lock
from zsrl_jax.runs import step_saves
from zsrl_jax.settings.fields import explorer_fields

RECIPE = explorer_fields()
RECIPE.update(
    {"explorer": "train", "horizon": 1, "num_envs": 2, "width": 8, "rnd_width": 8, "rnd_dim": 4,
     "batch": 8, "random_steps": 500, "steps_per_update": 200.0}
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    return collection.collect("cheetah", 4, seed=3, out=out, config=RECIPE, progress=False)


def test_dataset_is_what_the_simulator_did(whole):
    assert whole.obs.shape == (4, 1001, 17) and whole.action.shape == (4, 1000, 6)
    assert whole.domain == "cheetah"
    assert np.abs(whole.action).max() <= 1
    simulator = Simulator("cheetah", 2)
    obs = simulator.reset([3 * 1_000_003, 3 * 1_000_003 + 1])
    for step in range(20):
        np.testing.assert_array_equal(obs.astype(np.float32), whole.obs[:2, step])
        np.testing.assert_array_equal(simulator.physics(), whole.physics[:2, step])
        obs = simulator.step(whole.action[:2, step])


def test_episodes_differ(whole):
    assert not np.array_equal(whole.action[0], whole.action[1])
    assert not np.array_equal(whole.obs[0, 0], whole.obs[2, 0])


def test_stopped_in_a_round_and_resumed_equals_uninterrupted(whole, tmp_path):
    for episodes in (3, 4):  # rounds are of two
        grown = collection.collect(
            "cheetah", episodes, seed=3, out=tmp_path, config=RECIPE, progress=False
        )
        assert grown.num_episodes == episodes
        assert len(list((tmp_path / "buffer").glob("*.npz"))) == episodes
    np.testing.assert_array_equal(grown.obs, whole.obs)
    np.testing.assert_array_equal(grown.action, whole.action)


def test_a_whole_collection_is_read_by_many_and_written_by_one(whole, tmp_path):
    shutil.copytree(Path(whole.source.split(":", 1)[1]).parent, tmp_path / "copy")
    again = {"seed": 3, "out": tmp_path / "copy", "config": RECIPE, "progress": False}
    with (tmp_path / "copy" / lock.FILE).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # somebody else's
        np.testing.assert_array_equal(collection.collect("cheetah", 4, **again).obs, whole.obs)
        with pytest.raises(LockedError, match="in use"):
            collection.collect("cheetah", 6, **again)


def test_a_signal_ends_a_round_and_a_damaged_save_falls_back(whole, tmp_path, monkeypatch, capsys):
    act = collector.Collection._act

    def signalled(self, key, step, obs):
        if self.done == 2 and step == 55:
            os.kill(os.getpid(), signal.SIGTERM)
        return act(self, key, step, obs)

    def again():
        return collection.collect("cheetah", 4, seed=3, out=tmp_path, config=RECIPE, progress=False)

    with monkeypatch.context() as patch, pytest.raises(signals.Stopped, match="SIGTERM"):
        patch.setattr(collector.Collection, "_act", signalled)
        again()
    assert len(list((tmp_path / "buffer").iterdir())) == 2
    assert [step for step, _ in step_saves.steps(tmp_path / "explorer")] == [2, 0]
    file = step_saves.step_folder(tmp_path / "explorer", 2) / "tree" / "_METADATA"
    file.write_bytes(file.read_bytes()[:-1])
    np.testing.assert_array_equal(again().action, whole.action)
    assert "step_00000002' is damaged: file 'tree/_METADATA'" in capsys.readouterr().err


def test_episodes_of_others_are_never_overwritten(whole, tmp_path):
    (tmp_path / "buffer").mkdir()
    source = whole.source.removeprefix("collected:")
    for name in ("episode_000000_1000.npz",):
        (tmp_path / "buffer" / name).write_bytes((Path(source) / name).read_bytes())
    with pytest.raises(DataError, match="did not collect"):
        collection.collect("cheetah", 4, out=tmp_path, config=RECIPE, progress=False)


def test_another_recipe_in_the_same_folder_is_refused(whole):
    other = RECIPE.copy_and_resolve_references()
    other.batch = 9
    folder = whole.source.removeprefix("collected:").removesuffix("/buffer")
    with pytest.raises(DataError, match="another batch"):
        collection.collect("cheetah", 4, seed=3, out=folder, config=other, progress=False)


def test_bad_requests_are_named(tmp_path):
    with pytest.raises(TaskError, match="did you mean 'cheetah'"):
        collection.collect("cheeta", 4, out=tmp_path)
    with pytest.raises(DataError, match="episodes is 0"):
        collection.collect("cheetah", 0, out=tmp_path)


def test_running_moments_equal_those_of_all_values():
    draw = np.random.default_rng(0)
    values = (1e3 + draw.normal(size=(60, 3))).astype(np.float32)
    moments = rnd.Moments(jnp.zeros(()), jnp.zeros(3), jnp.zeros(3))
    for part in np.split(values, 6):
        moments = moments.add(jnp.asarray(part))
    np.testing.assert_allclose(moments.mean, values.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(
        moments.deviation(), values.astype(np.float64).std(axis=0), rtol=1e-3
    )


def test_coverage_names_speed_and_cells(whole):
    text = "\n".join(summary.coverage(whole))
    assert "speed" in text and "cells" in text


def test_what_lasts_is_worked_by_hand():
    """A cheetah that slides at 2 m/s for 150 of 300 steps, and then lies on its back."""
    physics = np.zeros((1, 301, 18))
    physics[0, 1:151, 9] = 2.0
    physics[0, 151:, 2] = np.pi
    speed, upright = summary.what_lasts("cheetah", physics, np.array([300]))
    low, mid, high = map(float, re.findall(r"\d+\.\d+", speed))
    assert (low, mid, high) == (0.0, 1.0, 2.0)  # the window in the middle slides half of its time
    assert "50 % of the states" in upright
    assert summary.what_lasts("point_mass_maze", np.zeros((1, 11, 4)), np.array([10])) == []


def test_a_share_of_the_quadrupeds_episodes_starts_on_its_feet():
    domain = DOMAINS["quadruped"]
    for share, low, high in ((0.0, 0, 4), (0.5, 20, 44), (1.0, 64, 64)):
        simulator = Simulator(often_standing(domain, share), 64)
        simulator.reset(range(64))
        seen = quantities("quadruped", simulator.physics())
        assert low <= int((np.asarray(seen.uprightness) > 0.99).sum()) <= high
    heading = simulator.physics()[:, 6]  # of the last: sin of half the angle
    assert heading.min() < 0.3 and heading.max() > 0.9
    simulator.step(np.zeros((64, domain.action_dim)))
    assert not simulator.blown().any()


def test_only_a_domain_that_can_stand_has_its_share_in_the_recipe():
    assert "standing" not in collection.recipe_of("cheetah", RECIPE)
    assert collection.recipe_of("quadruped", RECIPE)["standing"] == 0
    cheetah = DOMAINS["cheetah"]
    assert often_standing(cheetah, 1.0) is cheetah


def test_a_share_out_of_range_is_told(tmp_path):
    recipe = RECIPE.copy_and_resolve_references()
    recipe.standing = 1.5
    with pytest.raises(ConfigError, match="the explorer's standing is 1.5: expected 0 to 1"):
        collection.collect("quadruped", 1, out=tmp_path / "new", config=recipe)
    assert not (tmp_path / "new").exists()


def test_no_task_reward_is_ever_computed(tmp_path, monkeypatch):
    def never(physics):
        raise AssertionError("a task's reward was asked for")

    domain = DOMAINS["cheetah"]
    blind = domain._replace(tasks=dict.fromkeys(domain.tasks, never))
    monkeypatch.setitem(DOMAINS, "cheetah", blind)
    collection.collect("cheetah", 2, seed=3, out=tmp_path, config=RECIPE, progress=False)


def test_novelty_of_three_steps_is_summed_with_the_discount(whole):
    recipe = RECIPE.copy_and_resolve_references()
    recipe.horizon = 3
    explorer = rnd.make(recipe, whole.spec)
    state, key = jax.jit(explorer.init)(jax.random.key(0)), jax.random.key(1)
    store = to_device(whole, fit_normalizer(whole, "none"))
    drawn = draw_ahead(jax.random.split(key)[0], store, recipe.batch, 3, recipe.discount)
    _, metrics = jax.jit(explorer.update)(state, key, store)
    reached = np.asarray(drawn.reached)
    first = reached[:, 0]
    scaled = np.clip((reached - first.mean(0)) / (first.std(0) + 1e-6), -5, 5)
    net = networks.mlp((17,), (recipe.rnd_width,) * 2, recipe.rnd_dim)
    guess, aim = (
        np.asarray(net.apply(state.learner.params[name], scaled))
        for name in ("predictor", "random")
    )
    error = ((guess - aim) ** 2).mean(axis=2)
    paid = error @ 0.99 ** np.arange(3) / error[:, 0].std()  # no episode ends in this batch
    assert (np.asarray(drawn.weight) > 0).all()
    assert metrics["explore/reward"] == pytest.approx(paid.mean(), rel=1e-2)


def test_novelty_is_the_prediction_error_by_its_deviation(whole):
    explorer = rnd.make(RECIPE, whole.spec)
    state, key = jax.jit(explorer.init)(jax.random.key(0)), jax.random.key(1)
    store = to_device(whole, fit_normalizer(whole, "none"))
    batch = draw_transitions(jax.random.split(key)[0], store, RECIPE.batch)
    _, metrics = jax.jit(explorer.update)(state, key, store)
    reached = np.asarray(batch.next_obs)
    scaled = np.clip((reached - reached.mean(0)) / (reached.std(0) + 1e-6), -5, 5)
    net = networks.mlp((17,), (RECIPE.rnd_width,) * 2, RECIPE.rnd_dim)
    guess, aim = (
        np.asarray(net.apply(state.learner.params[name], scaled))
        for name in ("predictor", "random")
    )
    error = ((guess - aim) ** 2).mean(axis=1)
    assert metrics["explore/error"] == pytest.approx(error.mean(), rel=1e-3)
    assert metrics["explore/reward"] == pytest.approx((error / error.std()).mean(), rel=1e-2)
