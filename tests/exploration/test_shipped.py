"""Explorers that ship: the same episodes however they are asked for, and damage in one line."""

import json
import re
import shutil

import jax
import numpy as np
import pytest
from helpers.person import ROOT, command

from zsrl_jax import networks
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import ConfigError, DataError
from zsrl_jax.exploration import collection, collector, making, playing, shipped
from zsrl_jax.settings.fields import explorer_fields
from zsrl_jax.settings.scales import DOMAINS as PAPERS
from zsrl_jax.settings.scales import explorer_recipe

CHEETAH = DOMAINS["cheetah"]
SMALL = {"num_envs": 2, "width": 8, "rnd_width": 8, "rnd_dim": 4, "batch": 8,
         "random_steps": 500, "steps_per_update": 400.0}  # fmt: skip


def some_explorers(number: int = 3) -> shipped.Explorers:
    """Make actors of width 8 that were never trained."""
    actor = networks.actor(CHEETAH.obs_dim, 0, CHEETAH.action_dim, 8)
    params = jax.vmap(actor.init)(jax.random.split(jax.random.key(0), number))
    draw = np.random.default_rng(0)
    mean = draw.normal(size=(number, CHEETAH.obs_dim))
    return shipped.Explorers(jax.tree.map(np.asarray, params), mean, 1 + mean**2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three packed explorers of the cheetah, as if they were the package's."""
    place = tmp_path / "explorers"
    shipped.save("cheetah", some_explorers(), {"domain": "cheetah"}, place)
    monkeypatch.setattr(shipped, "FOLDER", place)
    monkeypatch.setattr(playing, "TOGETHER", 6)
    return place


def collect(episodes: int, out, seed: int = 0):
    return collection.collect("cheetah", episodes, seed, out, explorer_fields(), progress=False)


def test_each_actor_plays_its_own_episodes():
    explorers = some_explorers()
    act = playing.make_act(CHEETAH, explorers)
    obs = np.random.default_rng(1).normal(size=(6, CHEETAH.obs_dim))
    actor = networks.actor(CHEETAH.obs_dim, 0, CHEETAH.action_dim, 8)
    for row, found in enumerate(act(obs)):
        one = jax.tree.map(lambda x, who=row % 3: x[who], explorers)
        scaled = np.clip((obs[row] - one.mean) / one.deviation, -5, 5)[None]
        own = actor.apply(one.actor, scaled.astype(np.float32), np.zeros((1, 0), np.float32))
        np.testing.assert_allclose(found, own[0], atol=1e-5)


def test_actions_lie_on_the_grid_and_use_the_noise():
    recipe = explorer_fields()
    player = playing.Player(CHEETAH, some_explorers(), 4, recipe)
    played = player.block(0)
    assert played.obs.shape == (player.size, 1001, 17) and player.size % 3 == 0
    grid = played.action * playing.GRID
    np.testing.assert_array_equal(grid, np.round(grid))
    assert np.abs(played.action).max() <= 1
    act = playing.make_act(CHEETAH, some_explorers())
    clean = act(played.obs[:, 0])
    noise = np.random.default_rng([4, 1]).standard_normal((1000, 6))[0]
    wanted = np.clip(clean[1] + 0.2 * noise, -1, 1)
    np.testing.assert_allclose(played.action[1, 0], wanted, atol=0.5 / playing.GRID + 1e-12)


def test_only_a_domain_that_asks_for_it_is_pushed():
    for asked, share in ((True, 0.5), (False, 0.0)):
        recipe = explorer_fields()
        recipe.held = 0.5
        domain = CHEETAH._replace(pushed=asked)
        action = playing.Player(domain, some_explorers(), 4, recipe).block(0).action
        still = (action[:, 1:] == action[:, :-1]).all(axis=-1)
        assert still.mean() == pytest.approx(share, abs=0.1)


def test_a_collection_that_grows_equals_one_made_at_once(folder, tmp_path):
    whole = collect(9, tmp_path / "whole")
    for episodes in (4, 7, 9):
        grown = collect(episodes, tmp_path / "grown")
        assert grown.num_episodes == episodes
    np.testing.assert_array_equal(grown.obs, whole.obs)
    np.testing.assert_array_equal(grown.action, whole.action)
    other = collect(2, tmp_path / "other", seed=1)
    assert not np.array_equal(other.action[0], whole.action[0])


def test_other_explorers_in_the_same_folder_are_refused(folder, tmp_path):
    collect(2, tmp_path / "data")
    shipped.save("cheetah", some_explorers(2), {"domain": "cheetah"}, folder)
    with pytest.raises(DataError, match="with another explorers"):
        collect(2, tmp_path / "data")


def test_a_domain_without_explorers_is_trained(folder, tmp_path):
    assert collection.explorer_of("cheetah", explorer_fields()) == "shipped"
    shutil.rmtree(folder)
    assert collection.explorer_of("cheetah", explorer_fields()) == "train"
    recipe = collection.recipe_of("cheetah", explorer_fields())
    assert recipe["horizon"] == 3 and recipe["batch"] == 1024


def test_a_recipe_of_before_keeps_its_name(monkeypatch, tmp_path):
    """The fields that a collection of version 0.1 was named by, and no others."""
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    recipe = explorer_fields()
    recipe.horizon, recipe.held = 1, 0.0
    assert set(collection.recipe_of("quadruped", recipe)) == {
        "num_envs", "width", "rnd_dim", "rnd_width", "batch", "learning_rate", "target_rate",
        "discount", "noise", "noise_clip", "random_steps", "steps_per_update", "standing",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "how"), [("cheetah.npz", "cut"), ("cheetah.npz", "gone"), ("cheetah.json", "cut")]
)
def test_damage_is_one_clear_line(folder, tmp_path, name, how):
    file = folder / name
    file.write_bytes(file.read_bytes()[:-5]) if how == "cut" else file.unlink()
    with pytest.raises(DataError, match=r"explorers '.*' is (missing|damaged).*--train"):
        collect(2, tmp_path / "data")
    assert not list((tmp_path / "data").rglob("*.npz"))


@pytest.mark.parametrize(("apart", "levels"), [(1, 127), (2, 31), (3, 31)])
def test_packing_keeps_weights_to_half_a_step(tmp_path, apart, levels):
    explorers = jax.tree.map(np.array, some_explorers(5))
    for kernel in (x for x in jax.tree.leaves(explorers.actor) if x.ndim == 3):
        kernel[:, :, 3] = 0  # a unit without weights
    shipped.save("cheetah", explorers, {"made": "here"}, tmp_path, apart, levels)
    again = shipped.load("cheetah", tmp_path)
    assert shipped.read_card("cheetah", tmp_path)["made"] == "here"
    pairs = zip(jax.tree.leaves(explorers.actor), jax.tree.leaves(again.actor), strict=True)
    for was, now in pairs:
        step = np.abs(was).max(axis=(0, 1), keepdims=True) / levels if was.ndim == 3 else 2e-3
        assert (np.abs(now - was) <= 0.5001 * step).all()
    np.testing.assert_allclose(again.mean, explorers.mean, rtol=1e-6)


def test_actors_of_one_explorer_pack_as_their_differences(tmp_path):
    """Four ages of two explorers that change little take less room than eight strangers."""
    strangers, grown = some_explorers(8), some_explorers(2)
    grown = shipped.join([jax.tree.map(lambda x, a=a: x * (1 + a / 100), grown) for a in range(4)])
    sizes = [
        shipped.save("cheetah", one, {}, tmp_path / name, 2, 31).stat().st_size
        for name, one in (("strangers", strangers), ("grown", grown))
    ]
    assert sizes[1] < 0.8 * sizes[0]


def test_ages_are_whole_rounds_evenly_apart():
    assert making.ages(1024, 4, 32) == [256, 512, 768, 1024]
    assert making.ages(100, 3, 32) == [32, 64, 96]
    with pytest.raises(ConfigError, match="kept is 4: expected 1 to 3"):
        making.ages(100, 4, 32)


def test_training_keeps_the_actors_of_each_age_and_goes_on(tmp_path, monkeypatch):
    recipe = explorer_recipe("shipped")
    recipe.update(SMALL)
    first, second = making.train("cheetah", 7, [2, 4], tmp_path / "one", recipe)
    assert not np.array_equal(first.actor["Dense_0"]["kernel"], second.actor["Dense_0"]["kernel"])
    making.train("cheetah", 7, [2], tmp_path / "two", recipe)  # as if stopped after two episodes
    again = making.train("cheetah", 7, [2, 4], tmp_path / "two", recipe)[1]
    jax.tree.map(np.testing.assert_array_equal, again, second)
    monkeypatch.setattr(collector.Collection, "round", None)  # nothing is trained twice
    making.train("cheetah", 7, [2, 4], tmp_path / "two", recipe)
    packed = making.pack("cheetah", [[first, second], [first, second]])
    np.testing.assert_array_equal(packed.mean, np.concatenate([first.mean] * 2 + [second.mean] * 2))


@pytest.mark.parametrize("file", sorted(shipped.FOLDER.glob("*.npz")), ids=lambda file: file.stem)
def test_what_the_package_holds_is_whole_and_small(file):
    card = json.loads(file.with_suffix(".json").read_text())
    assert file.stat().st_size <= 2**20 and card["domain"] == file.stem
    assert "versions" in card and "command" in card and "covers" in card
    explorers = shipped.load(file.stem)
    assert explorers.mean.shape[1] == DOMAINS[file.stem].obs_dim


def test_the_paper_s_three_domains_have_explorers():
    assert sorted(file.stem for file in shipped.FOLDER.glob("*.npz")) == sorted(PAPERS)


@pytest.mark.parametrize("domain", PAPERS)
def test_make_explorers_runs_the_command_of_the_card(domain):
    """And that command, with its defaults of today, keeps the actors that ship."""
    card = shipped.read_card(domain)
    assert f"\t$(BIN)/{card['command']}" in (ROOT / "Makefile").read_text().splitlines()
    source = (ROOT / "zsrl_jax/commands/explorers.py").read_text()
    flags = dict(re.findall(r'DEFINE_integer\("(\w+)", (\d+)', source))
    flags |= dict(re.findall(r"--(\w+)=(\d+)", card["command"]))
    kept = making.ages(int(flags["episodes"]), int(flags["kept"]), card["recipe"]["num_envs"])
    assert kept == card["kept_after_episodes"] and card["explorers"] == int(flags["number"])
    assert card["seeds"][0] == int(flags["first_seed"])


@pytest.mark.whole
@pytest.mark.parametrize("file", sorted(shipped.FOLDER.glob("*.npz")), ids=lambda file: file.stem)
def test_the_first_episodes_are_those_of_the_card(file):
    """Equal to the last bit where the processor rounds as the one that made the card did."""
    card = json.loads(file.with_suffix(".json").read_text())
    told, recipe = card["first_episodes"], explorer_recipe("shipped")
    assert recipe.to_dict() == card["recipe"]
    found = playing.fingerprint(DOMAINS[file.stem], shipped.load(file.stem), recipe)
    assert told["episodes"] == 64
    if found["sha256"] != told["sha256"]:
        np.testing.assert_allclose(found["early"], told["early"], atol=1e-4)
        apart = np.abs(np.subtract(found["mean"], told["mean"]))
        assert (apart <= 0.1 * np.array(told["deviation"]) + 1e-3).all()


def test_a_fingerprint_tells_other_explorers_and_other_noise():
    recipe = explorer_fields()
    one = playing.fingerprint(CHEETAH, some_explorers(), recipe, 6)
    assert one == playing.fingerprint(CHEETAH, some_explorers(), recipe, 6)
    recipe.noise = 0.1
    quieter = playing.fingerprint(CHEETAH, some_explorers(), recipe, 6)
    fewer = playing.fingerprint(CHEETAH, some_explorers(2), explorer_fields(), 6)
    for other in (quieter, fewer):
        assert other["sha256"] != one["sha256"]
        assert np.abs(np.subtract(other["early"], one["early"])).max() > 1e-3


def test_few_episodes_are_played_in_a_small_block():
    sizes = [
        playing.Player(CHEETAH, some_explorers(), 0, explorer_fields(), n).size for n in (1, 4, 500)
    ]
    assert sizes == [3, 6, 63]


@pytest.mark.whole
def test_the_command_trains_packs_and_tells_what_is_covered(tmp_path):
    fields = [f"--recipe.{name}={value}" for name, value in SMALL.items()]
    asked = ["--domain=cheetah", "--number=2", "--episodes=4", "--kept=2", *fields]
    places = [f"--work={tmp_path / 'work'}", f"--out={tmp_path / 'out'}"]
    done = command(*asked, *places, module="experiments.explorers")
    assert done.returncode == 0, done.stderr
    assert "4 actors of" in done.stdout and "random actions:" in done.stdout
    card = shipped.read_card("cheetah", tmp_path / "out")
    assert card["command"].endswith(" ".join(asked))  # and no folder of this machine
    assert card["kept_after_episodes"] == [2, 4] and card["seeds"] == [1000, 1001]
    assert set(card["covers"]) == {"all of these", "the youngest of each", "random actions"}
    packed, recipe = shipped.load("cheetah", tmp_path / "out"), explorer_recipe("shipped")
    assert packed.number == 4
    assert card["first_episodes"] == playing.fingerprint(CHEETAH, packed, recipe)
    bad = command("--domain=cheetah", "--kept=0", *places, module="experiments.explorers")
    assert bad.returncode == 2 and "kept is 0: expected 1 to 16" in bad.stderr
