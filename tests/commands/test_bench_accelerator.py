"""The check of an accelerator, on the CPU: every part of it runs, and it can find something."""

import numpy as np
import pytest

from zsrl_jax.commands.bench import _accelerator_kill as kill
from zsrl_jax.commands.bench import accelerator
from zsrl_jax.errors import DataError


@pytest.mark.faults
def test_it_runs_here_and_prints_a_block(capsys):
    words = ["--here", "--size=tiny", "--only=lra_p,policy", "--rows=2000", "--seconds=0.1"]
    accelerator.main(words)
    text = capsys.readouterr().out
    assert text.startswith("```\nzsrl_jax ") and text.rstrip().endswith("```")
    for told in ("kill: after a resume parameters differ by 0", "numbers: lra_p: gradients",
                 "speed: policy, tiny, tf32: ", "nothing is wrong"):  # fmt: skip
        assert told in text


def test_without_an_accelerator_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(kill, "backend", lambda: "cpu")
    with pytest.raises(DataError, match=r"no accelerator: pip install '.\[cuda\]'"):
        accelerator.main([])


def test_wrong_numbers_are_found(monkeypatch):
    line, good = accelerator._numbers("lra_p")
    assert good and "float32 0.0e+00" in line  # the same device twice
    right = accelerator.gradients

    def off(name, device, products):
        return right(name, device, products) * np.float32(1.01 if products == "tf32" else 1)

    monkeypatch.setattr(accelerator, "APART", {"float32": 1e-4, "tf32": 5e-3, "bfloat16": 2e-2})
    monkeypatch.setattr(accelerator, "gradients", off)
    assert not accelerator._numbers("lra_p")[1]
