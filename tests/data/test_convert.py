"""From one format to another and back, by function and by command."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.foreign import episodes, expected, same
from helpers.small_data import write_counters

from zsrl_jax.data import Dataset, load_dataset
from zsrl_jax.data.writing import write_dataset
from zsrl_jax.errors import DataError

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:.*(next_observations|scaled|joined|float64)")


@pytest.mark.parametrize("to", ["exorl", "ogbench", "minari"])
@pytest.mark.parametrize("known", [True, False])
def test_round_trips(tmp_path, to, known):
    if known:
        names = ["episode_0_5.npz", "episode_1_3.npz"]
        for name, rows in zip(names, (6, 4), strict=True):
            write_counters(tmp_path / "from", [name], rows=rows)
        data = load_dataset(tmp_path / "from", progress=False)
    else:
        data = expected()
    assert write_dataset(data, tmp_path / "to", to) == []
    again = load_dataset(tmp_path / "to", progress=False)
    same(data, again)
    assert again.source.startswith(f"{to}:") and again.domain == data.domain
    assert again.fingerprint() == data.fingerprint()
    if known:
        np.testing.assert_array_equal(again.physics, data.physics)
    with pytest.raises(DataError, match="exists: name another place"):
        write_dataset(data, tmp_path / "to", to)


def test_what_a_format_cannot_hold_is_said(tmp_path):
    obs, action, reward, terminal = zip(*episodes(), strict=True)
    data = Dataset.from_arrays(obs, action, physics=obs)
    for to in ("ogbench", "minari"):
        assert "physics" in write_dataset(data, tmp_path / to, to)[0]


def command(*args):
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    call = [sys.executable, "-m", "experiments.data", *map(str, args)]
    return subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)


def test_the_commands(tmp_path):
    write_counters(tmp_path / "from", ["episode_0_5.npz", "episode_1_5.npz"])
    card = command("inspect", tmp_path / "from", f"--plot={tmp_path / 'x.png'}")
    assert card.returncode == 0, card.stderr
    for word in ("exorl", "cheetah", "10", "5 each", "per transition", "missing: nothing",
                 "state coverage", "speed", "reward run_backward"):  # fmt: skip
        assert word in card.stdout, word
    assert (tmp_path / "x.png").stat().st_size > 10_000
    done = command("convert", tmp_path / "from", tmp_path / "to.npz", "--to", "ogbench")
    assert done.returncode == 0, done.stderr
    same(load_dataset(tmp_path / "to.npz"), load_dataset(tmp_path / "from"))
    (tmp_path / "from" / "episode_1_5.npz").write_bytes(b"")
    bad = command("inspect", tmp_path / "from")
    assert bad.returncode == 2 and "Traceback" not in bad.stderr
    assert "error: episode" in bad.stderr and "found an empty file" in bad.stderr
    drawn = command("inspect", tmp_path / "to.npz", f"--plot={tmp_path / 'x.pmg'}")
    assert drawn.returncode == 2 and "expected a name that ends in" in drawn.stderr
    assert "Traceback" not in drawn.stderr
    wrong = command("inspekt", tmp_path)
    assert wrong.returncode == 2 and "did you mean 'inspect'" in wrong.stderr
