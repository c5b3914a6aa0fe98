"""The default folder of a run says its scale, and its data where that is not the default."""

from pathlib import Path

import numpy as np
import pytest

from zsrl_jax.data import Dataset
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.settings.cells import oracle_config
from zsrl_jax.settings.names import data_name, run_name
from zsrl_jax.settings.scales import SCALES
from zsrl_jax.training.data_source import collection_folder, default_folder


def test_laptop_scale_has_the_bare_name_and_others_say_theirs():
    names = {scale: run_name(get_cell("cheetah", "fb", "btd", scale)) for scale in SCALES}
    assert names == {
        "laptop": "cheetah_fb_btd", "paper": "cheetah_fb_btd_paper",
        "smoke": "cheetah_fb_btd_smoke",
    }  # fmt: skip
    assert run_name(oracle_config("walker", ("run",), "smoke")) == "walker_oracle_run_smoke"


@pytest.mark.parametrize(
    ("field", "value", "mark"),
    [("episodes", 100, "_episodes100"), ("seed", 3, "_data3"), ("every_nth", 2, "")],
)
def test_another_collection_is_marked(field, value, mark):
    config = get_cell("cheetah", "fb", "btd", "laptop")
    config.data[field] = value
    assert run_name(config) == "cheetah_fb_btd" + mark


def test_another_recipe_is_marked():
    config = get_cell("cheetah", "fb", "btd", "laptop")
    config.data.collect.noise = 0.7
    assert run_name(config).startswith("cheetah_fb_btd_recipe_")


def test_data_of_ones_own_is_named():
    config = get_cell("other", "fb", "btd", "laptop")
    one, two = (run_name(config, path) for path in ("a/cart.npz", "b/cart.npz"))
    assert one != two and one.startswith("other_fb_btd_cart_")
    assert data_name("some where/my data!/buffer").startswith("my-data_")
    assert data_name("/x/" + "n" * 90 + ".npz").startswith("n" * 24 + "_")
    config.data.max_episodes = 10
    assert run_name(config, "a/cart.npz") == f"{one}_max10"


def test_the_folder_follows_where_data_comes_from(tmp_path, monkeypatch):
    monkeypatch.delenv("ZSRL_DATA", raising=False)
    config = get_cell("cheetah", "fb", "btd", "smoke")
    assert default_folder(config, None) == Path("runs/cheetah_fb_btd_smoke")
    file = tmp_path / "mine.npz"
    np.savez(file, x=1)
    config.data.path = str(file)
    assert default_folder(config, None) == Path("runs") / run_name(config, file)
    config.data.path = ""
    monkeypatch.setenv("ZSRL_DATA", str(tmp_path / "nothing"))
    assert default_folder(config, None) == Path("runs/cheetah_fb_btd_smoke")
    arrays = np.zeros((1, 3, 17), np.float32), np.zeros((1, 2, 6), np.float32)
    dataset = Dataset.from_arrays(*arrays)
    assert default_folder(config, dataset).name.startswith("cheetah_fb_btd_smoke_memory-")


def test_a_collection_given_in_python_is_the_config_s_own():
    import dataclasses

    config = get_cell("cheetah", "fb", "btd", "smoke")
    arrays = np.zeros((1, 3, 17), np.float32), np.zeros((1, 2, 6), np.float32)
    source = f"collected:{collection_folder(config) / 'buffer'}"
    own = dataclasses.replace(Dataset.from_arrays(*arrays), source=source)
    assert default_folder(config, own) == Path("runs/cheetah_fb_btd_smoke")


def test_a_domain_s_own_collection_is_its_default():
    config = get_cell("point_mass_maze", "fb", "btd", "laptop")
    assert config.data.episodes == 256 and run_name(config) == "point_mass_maze_fb_btd"
    config.data.episodes = 300
    assert run_name(config) == "point_mass_maze_fb_btd_episodes300"
