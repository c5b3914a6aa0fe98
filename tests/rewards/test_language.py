"""Reward texts: values worked by hand, hostile texts refused; the browser has the same table."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from zsrl_jax.errors import DataError
from zsrl_jax.rewards import FUNCTIONS, RewardTextError, parse
from zsrl_jax.rewards.values import CALLS, evaluate

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())
STATES = {name: np.asarray(column) for name, column in CASES["states"].items()}
short = lambda case: case["text"][:40]  # noqa: E731


def rewards(text):
    return evaluate(parse(text, tuple(STATES)), STATES, 4)


@pytest.mark.parametrize("case", CASES["values"], ids=short)
def test_value(case):
    np.testing.assert_allclose(rewards(case["text"]), case["value"], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("case", CASES["hostile"], ids=short)
def test_hostile_text_is_refused_in_one_line_at_its_character(case):
    began = time.perf_counter()
    with pytest.raises(DataError) as error:
        rewards(case["text"])
    assert time.perf_counter() - began < 0.5
    assert case["told"] in str(error.value) and "\n" not in str(error.value)
    if case["character"] is None:
        assert not isinstance(error.value, RewardTextError)
    else:
        assert error.value.place == case["character"]
        assert f"character {case['character'] + 1}:" in str(error.value)
        text, caret = error.value.__notes__[0].rsplit("\n", 1)
        assert caret.index("^") == 4 + case["character"]


def test_the_table_has_at_least_forty_hostile_texts_and_every_function():
    assert len({case["text"] for case in CASES["hostile"]}) >= 40
    told = " ".join(case["text"] for case in CASES["values"])
    assert all(f"{name}(" in told for name in FUNCTIONS)
    assert set(FUNCTIONS) == set(CALLS)


def test_an_unknown_name_gets_the_nearest_and_all_known():
    with pytest.raises(RewardTextError, match="did you mean 'speed'\\? known: speed, height") as e:
        rewards("height + sped")
    assert e.value.place == 9
    with pytest.raises(RewardTextError, match="unknown function 'maxi': did you mean 'max'"):
        rewards("maxi(1, 2)")


def test_a_number_column_is_float64():
    assert rewards("height > 0").dtype == np.float64
