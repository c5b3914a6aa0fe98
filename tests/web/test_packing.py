"""A run becomes an agent that ships: its card, its scores over seeds, its size."""

import json
import shutil

import numpy as np
import pytest
from helpers.person import ROOT
from helpers.untrained import play

import zsrl_jax
from zsrl_jax.errors import DataError
from zsrl_jax.runs import shipped
from zsrl_jax.web.packing import Sizes, pack

pytestmark = pytest.mark.filterwarnings("ignore:the features hardly")
RUN = ROOT / "tests/fixtures/run_0_1"


@pytest.fixture(scope="module")
def data():
    return play("cheetah", steps=150)


def test_a_run_is_packed_with_the_scores_of_all_its_seeds(tmp_path, monkeypatch, data):
    told = pack(RUN, tmp_path, dataset=data, more=[RUN])
    assert "MB, 1000 prompt states; cosine of its z with the whole agent's: " in told
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    card, kept = shipped.read_card("cheetah"), json.loads((RUN / "results.json").read_text())
    assert card["returns"] == kept["returns"] * 2 and card["seeds"] == kept["seeds"] * 2
    np.testing.assert_allclose(card["mean"], np.mean(kept["returns"], axis=(0, 2)), atol=0.06)
    assert card["data"]["fingerprint"] == kept["data"]["fingerprint"]
    whole, small = zsrl_jax.load(RUN), zsrl_jax.load("cheetah")
    for text, near in card["cosine_to_whole"].items():
        one, other = whole.infer(reward=text)[0], small.infer(reward=text)[0]
        assert near == pytest.approx(one @ other / whole.radius**2, abs=1e-3)
    clips = shipped.read_clip_arrays("cheetah")
    assert 4 <= len(clips) <= 6 and clips[0][0] == "most speed"
    assert clips[0][1].shape == (100, 17) and clips[0][2].shape == (100, 18)


def test_fewer_states_are_kept_until_it_fits(tmp_path, monkeypatch, data):
    monkeypatch.setattr(shipped, "LIMIT", 90_000)
    with pytest.raises(shipped.TooLargeError, match="keep fewer states"):
        pack(RUN, tmp_path, dataset=data, sizes=Sizes(1000, 500))
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("zsrl_jax.web.packing.SIZES", ((1000, 500), (100, 50)))
    assert " 100 prompt states" in pack(RUN, tmp_path, dataset=data)


def test_refusals(tmp_path, data):
    with pytest.raises(DataError, match="member 2: the run has 1 seed"):
        pack(RUN, tmp_path, member=2, dataset=data)
    with pytest.raises(DataError, match="expected the run's collection"):
        pack(RUN, tmp_path)
    shutil.copytree(RUN, tmp_path / "run")
    (tmp_path / "run/results.json").unlink()
    with pytest.raises(DataError, match="has no results.json: expected a finished, scored run"):
        pack(tmp_path / "run", tmp_path, dataset=data)
