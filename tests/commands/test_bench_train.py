"""The bench of training at tiny sizes: its files, its marks, and PyTorch's twins of the updates."""

import inspect
import json
import math

import jax
import pytest

from zsrl_jax.commands.bench import _train_cases, train
from zsrl_jax.errors import DataError


@pytest.mark.whole
def test_it_measures_prints_and_saves(tmp_path, capsys):
    words = ["--only=policy", "--sizes=tiny", "--seeds=1", "--repeats=1", "--product=64"]
    train.main([*words, "--no_torch", "--no_starts", "--growth", f"--out={tmp_path}"])
    found = json.loads((tmp_path / "train.json").read_text())
    row = found["rows"][0]
    assert [(x["axis"], x["value"]) for x in found["growth"]] == [
        ("dim", 4), ("dim", 8), ("batch", 16), ("batch", 32), ("rows", 1000), ("rows", 2000)
    ]  # fmt: skip
    for field in ("updates_per_second", "share", "peak_mib", "gflop", "matrix_gflop_per_second"):
        assert math.isfinite(row[field]) and row[field] > 0
    assert row["seeds"] == {"1": pytest.approx(row["updates_per_second"])}
    assert (tmp_path / "train.png").stat().st_size > 1000
    assert "policy tiny" in capsys.readouterr().out


def test_what_falls_short_is_named():
    good = {"size": "paper", "share": 0.8, "torch_ratio": 1.3, "pipeline": 0.01, "restart": 0.2}
    assert train.missed(good) == []
    bad = {"size": "laptop", "share": 0.7, "torch_ratio": 1.3, "pipeline": 0.1, "restart": 0.5}
    assert set(train.missed(bad)) == {"share", "torch_ratio", "pipeline", "restart"}


def test_unknown_names_are_told():
    with pytest.raises(DataError, match="did you mean 'fb'"):
        train.main(["--only=fbb"])


def test_growth_of_a_policys_batch_is_by_transitions():
    from zsrl_jax.commands.bench._train_growth import _fields

    assert _fields("policy", "laptop", "batch", 1024) == {"per_task": 32}
    assert _fields("fb", "laptop", "batch", 1024) == {"batch": 1024}


@pytest.mark.parametrize("name", _train_cases.NAMES)
def test_pytorchs_twin_trains_as_much_as_the_update_does(name):
    """All of its networks learn, its targets follow, and they have as many parameters as ours."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    case = _train_cases.build(name, "tiny", rows=2000)
    update = case.in_torch()
    held = inspect.getclosurevars(update).nonlocals.values()
    held = [part for found in held for part in (found.values() if isinstance(found, dict) else
            found if isinstance(found, tuple) else [found])]  # fmt: skip
    nets = [net for net in held if isinstance(net, torch.nn.Module)]
    params = [param for net in nets for param in net.parameters()]
    before = [param.clone() for param in params]
    for _ in range(3):
        update()
    assert all(torch.isfinite(param).all() for param in params)
    assert all((a != b).any() for a, b in zip(before, params, strict=True))
    state = jax.eval_shape(case.learner.init, jax.random.key(0))
    ours = sum(leaf.size for leaf in jax.tree.leaves(state.params))
    assert sum(param.numel() for param in params if param.requires_grad) == ours
