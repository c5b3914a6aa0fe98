"""The check of an accelerator, on the CPU: every part of it runs, and it can find something."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from zsrl_jax.commands.bench import _accelerator_kill as kill
from zsrl_jax.commands.bench import _accelerator_memory as used
from zsrl_jax.commands.bench import _accelerator_units as units
from zsrl_jax.commands.bench import accelerator
from zsrl_jax.devices import precision
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.errors import DataError
from zsrl_jax.training.blueprint import Program


@pytest.mark.faults
def test_it_runs_here_and_prints_a_block(capsys):
    words = ["--here", "--size=tiny", "--only=lra_p,policy", "--rows=2000", "--seconds=0.1"]
    accelerator.main(words)
    text = capsys.readouterr().out
    assert text.startswith("```\nzsrl_jax ") and text.rstrip().endswith("```")
    for told in ("kill: after a resume parameters differ by 0", "numbers: lra_p: gradients",
                 "memory: the compiler says ", "units: float32, tf32, bfloat16\n",
                 "speed: policy, tiny, tf32: ", "nothing is wrong"):  # fmt: skip
        assert told in text


def test_every_learner_is_checked():
    """Encoders that were added later too."""
    assert set(accelerator.NAMES) == {*ENCODERS, "policy"}
    assert accelerator.gradients("hilp", jax.devices()[0], "float32").any()


def test_speed_stands_beside_the_estimate_of_the_page(monkeypatch):
    """docs/performance.md: the policy on an A100, 71 updates/s in float32 and 570 in tf32."""
    device = SimpleNamespace(device_kind="NVIDIA A100-SXM4-40GB")
    monkeypatch.setattr(accelerator.jax, "devices", lambda: [device])
    flops = 5 * 110e9  # of one update of five seeds
    assert accelerator.against_estimate(flops, 7.1, "float32") == (
        "35.5 updates/s of 5 seeds (estimated 71), 20% of the maker's peak (estimated 40%)"
    )
    assert "(estimated 567)" in accelerator.against_estimate(flops, 7.1, "tf32")


def test_memory_stands_beside_the_compiler_s_figure(monkeypatch):
    told = used.tell("tiny", 2000)
    assert re.fullmatch(
        r"memory: the compiler says 0.0\d GB for the policy; the device does not tell .*", told
    )
    small = Program("policy", lambda x: x, (0,), (jax.ShapeDtypeStruct((2, 3), np.float32),))
    monkeypatch.setattr(used, "programs", lambda *_: [small])
    facts = {"peak_bytes_in_use": 6e9, "bytes_limit": 12e9}
    device = SimpleNamespace(memory_stats=lambda: facts, platform="gpu")
    monkeypatch.setattr(used.jax, "local_devices", lambda: [device])
    assert used.tell("tiny", 2000).endswith("the device used 6.00 of 12.00 GB at most")


def test_without_an_accelerator_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(kill, "backend", lambda: "cpu")
    with pytest.raises(DataError, match=r"no accelerator: pip install '.\[cuda\]'"):
        accelerator.main([])


def test_a_check_that_fails_is_a_line_of_the_block(monkeypatch, capsys):
    def full(size, rows):
        raise RuntimeError("RESOURCE_EXHAUSTED: out of memory\nwhile allocating")

    monkeypatch.setattr(used, "tell", full)
    monkeypatch.setattr(accelerator, "_kill", lambda backend: ("kill: none", True))
    monkeypatch.setattr(
        accelerator, "_numbers", lambda name, kinds: (f"numbers: {name}: right", True)
    )
    with pytest.raises(DataError, match="memory: please open an issue"):
        accelerator.main(["--here", "--only=lra_p", "--size=tiny"])
    block = capsys.readouterr().out
    assert block.startswith("```\nzsrl_jax ")  # the versions and the device first
    assert "memory: failed: RuntimeError: RESOURCE_EXHAUSTED: out of memory\n" in block
    assert "numbers: lra_p: right" in block and "wrong: memory" in block


def test_wrong_numbers_are_found(monkeypatch):
    line, good = accelerator._numbers("lra_p")
    assert good and "float32 0.0e+00" in line  # the same device twice
    right = accelerator.gradients

    def off(name, device, products):
        return right(name, device, products) * np.float32(1.01 if products == "tf32" else 1)

    monkeypatch.setattr(accelerator, "APART", {"float32": 1e-4, "tf32": 5e-3, "bfloat16": 2e-2})
    monkeypatch.setattr(accelerator, "gradients", off)
    assert not accelerator._numbers("lra_p", ("tf32",))[1]


def test_a_precision_that_the_device_refuses_is_one_line(monkeypatch):
    """A CPU that is asked for a GPU's tf32 refuses it, as an older GPU does."""
    assert units.there() == (list(precision.NAMES), "units: float32, tf32, bfloat16", True)
    with precision.traced_for("gpu"):
        found, line, good = units.there()
        assert found == ["float32", "bfloat16"] and good  # no table says that a CPU has tf32
        assert line.startswith("units: float32, bfloat16, tf32 is refused (") and "\n" not in line
        device = SimpleNamespace(device_kind="NVIDIA A100-SXM4-40GB")
        monkeypatch.setattr(units.jax, "devices", lambda: [device])
        assert not units.there()[2]  # and of an A100 it does


def test_a_refused_precision_is_left_out_of_the_rest(monkeypatch, capsys):
    monkeypatch.setattr(accelerator, "_kill", lambda backend: ("kill: none", True))
    monkeypatch.setattr(used, "tell", lambda size, rows: "memory: none")
    with precision.traced_for("gpu"):
        accelerator.main(["--here", "--only=lra_p", "--size=tiny"])
    block = capsys.readouterr().out
    assert "tf32 is refused" in block and block.count("tf32") == 1
    assert re.search(r"numbers: lra_p: .* float32 \S+, bfloat16 \S+\n", block)
    assert "nothing is wrong" in block


def test_the_runs_come_before_this_process_uses_the_device():
    """And XLA knows the flags that a GPU's runs get: of others it makes an end."""
    script = (
        "from zsrl_jax.commands.bench import accelerator\n"
        "from zsrl_jax.devices import compile_cache\n"
        "from jax._src import xla_bridge\n"  # jax.extend does not tell whether a device is in use
        "compile_cache.keep()\n"
        "assert not xla_bridge.backends_are_initialized()\n"
        "import jax; print(len(jax.devices()))"
    )
    env = {**os.environ, "XLA_FLAGS": kill.FIXED["gpu"]}
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
