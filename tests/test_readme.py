"""What README and CONTRIBUTING show works as shown."""

import re
import types
from pathlib import Path

import jax
import numpy as np
import pytest

import zsrl_jax
from zsrl_jax.data import fit_normalizer, to_device
from zsrl_jax.settings import fields

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_encoder_of_contributing_learns(noise_dataset, monkeypatch):
    code = next(
        c for c in re.findall(r"```python\n(.*?)```", CONTRIBUTING, re.S) if "def make" in c
    )
    module = types.ModuleType("shown")
    exec(code, module.__dict__)
    monkeypatch.setitem(zsrl_jax.ENCODERS, "shown", module)
    config = fields.get_config("cheetah", "shown", "btd").encoder
    config.update({"dim": 4, "hidden": (16,), "batch": 32, "learning_rate": 1e-2})
    encoder = module.make(config, noise_dataset.spec)
    store = to_device(noise_dataset, fit_normalizer(noise_dataset, "none"))
    state, update, seen = encoder.init(jax.random.key(0)), jax.jit(encoder.update), []
    for step in range(100):
        batch = encoder.sample(jax.random.key(step), store)
        state, metrics = update(state, batch, jax.random.key(step), step)
        seen.append(float(metrics["encoder/loss"]))
    assert np.mean(seen[-10:]) < np.mean(seen[:10])
    phi = encoder.features(encoder.freeze(jax.random.key(0), state.params, store), store.obs[0])
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 2.0, rtol=1e-4)


@pytest.mark.whole
@pytest.mark.parametrize("page", ["README.md", "docs/page.md"])
def test_the_python_shown_runs_before_any_training(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no run is there
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    names = {"zsrl_jax": zsrl_jax}
    exec("".join(block for block in blocks if "zsrl_jax.page(" not in block), names)
    assert names["z"].shape == (1, names["agent"].z_dim) and names["agent"].shipped == "cheetah"


def test_public_names_are_there():
    table = README.split("## Public names")[1].split("\n## ")[0]
    for name in re.findall(r"^\| `(\w+)[(`]", table, re.M):
        assert hasattr(zsrl_jax, name), name
    for name in ("ENCODERS", "SAMPLERS", "DOMAINS", "gmm", "quantities"):
        assert name in table and hasattr(zsrl_jax, name)


def test_files_and_links_exist():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("http") or (ROOT / link).exists(), link
    for config in re.findall(r"configs/\w+\.py", README):
        assert (ROOT / config).exists(), config


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md"])
def test_lines_of_prose_fit_a_page(page):
    """A row of a table, a picture and an address cannot be broken."""
    for file in ROOT.glob(page):
        for line in file.read_text().splitlines():
            assert len(line) <= 100 or line.startswith(("|", "![")) or "http" in line, (file, line)


def test_lines_fit_a_page_and_the_layout_is_the_real_one():
    assert max(len(line) for line in README.splitlines()) <= 100
    layout = README.split("## Layout")[1].split("\n## ")[0]
    package = ROOT / "zsrl_jax"
    for names in re.findall(r"^ {6}(\w[\w/, ]*?)  ", layout, re.M):
        for name in names.replace(" ", "").split(","):
            assert (package / name.rstrip("/")).exists() or (package / f"{name}.py").exists(), name
    rooms = {f.name for f in package.iterdir() if f.is_dir() and f.name != "__pycache__"}
    assert all(f"{room}/" in layout for room in rooms), rooms


def test_no_placeholder_is_left():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        assert not re.findall(r"^[A-Z]+_[A-Z]+$", page.read_text(), re.M), page


def test_paths_in_contributing_exist():
    for path in re.findall(
        r"`((?:zsrl_jax|tests|docs|experiments|examples)/[\w./]+)`", CONTRIBUTING
    ):
        if path.rstrip("/").split("/")[-1] not in ("NAME.py", "NAME"):
            assert (ROOT / path).exists(), path
