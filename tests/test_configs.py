"""Configs: every cell at every scale is complete, locked, and chosen by its argument."""

import importlib.util
from pathlib import Path

import jax
import pytest

from configs import cell, cheetah_fb_btd
from zsrl_jax import DOMAINS, ENCODERS, SAMPLERS
from zsrl_jax.errors import ConfigError, TaskError
from zsrl_jax.settings import check
from zsrl_jax.stage import cell_name

NAMED = sorted(Path(cell.__file__).parent.glob("[a-z]*_*_*.py"))


@pytest.mark.parametrize("scale", cell.SCALES)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_cell_is_complete_and_locked(scale, encoder, sampler):
    for domain in DOMAINS:
        config = cell.get_config(f"{domain},{encoder},{sampler},{scale}")
        assert config.scale == scale and cell_name(config) == f"{domain}_{encoder}_{sampler}"
        check(config)
        with pytest.raises(AttributeError, match="updates"):
            config.policy.update_s = 3


def test_auto_follows_the_backend(monkeypatch):
    assert cheetah_fb_btd.get_config().scale == "laptop"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    config = cheetah_fb_btd.get_config("auto")
    assert config.scale == "paper" and "gpu" in config.scale_reason


def test_paper_scale_has_the_paper_s_numbers():
    config = cheetah_fb_btd.get_config("paper")
    assert (config.encoder.updates, config.encoder.batch, config.encoder.dim) == (
        2_000_000,
        1024,
        50,
    )
    policy = config.policy
    assert (policy.updates, policy.num_tasks, policy.per_task) == (1_000_000, 32, 64)
    assert (policy.learning_rate, policy.noise, policy.noise_clip) == (1e-4, 0.2, 0.3)
    assert (config.tasks.num_components, config.tasks.num_subtrajectories) == (20, 10_000)
    assert (policy.behaviour, policy.head_norm, config.data.normalize) == (0.0, False, "none")


def test_unknown_names_are_told_with_the_nearest():
    with pytest.raises(TaskError, match="unknown sampler 'uniforn': did you mean 'uniform'"):
        cell.get_config("cheetah,fb,uniforn")
    with pytest.raises(TaskError, match="unknown encoder 'xy'"):
        cell.get_config("cheetah,xy,btd")
    with pytest.raises(ConfigError, match="did you mean 'laptop'"):
        cell.get_config("cheetah,fb,btd,labtop")
    with pytest.raises(ConfigError, match="has 1 parts"):
        cell.get_config("cheetah")


@pytest.mark.parametrize("file", NAMED, ids=lambda f: f.name)
def test_named_configs_are_the_cell_of_their_name(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert cell_name(module.get_config("smoke")) == file.stem
    assert "python -m experiments.run" in module.__doc__


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("data.normalize", "nonee", "did you mean 'none'"),
        ("encoder.radius", "sqrtd", "did you mean 'sqrt_d'"),
        ("policy.head", "vector", "successor"),
        ("policy.policy_delay", 0, "expected at least 1"),
        ("tasks.alpha", 1.5, "expected one from 0 to 1"),
        ("tasks.alpha", -0.1, "expected one from 0 to 1"),
        ("tasks.min_length", 0, "expected at least 1"),
        ("evaluate.episodes", 0, "expected at least 1"),
        ("evaluate.every", 30, "multiple of config.log_every"),
        ("infer.ridge", "abc", "expected auto or a number"),
        ("infer.ridge", -1.0, "expected auto or a number"),
        ("domain", "walkerr", "did you mean 'walker'"),
    ],
)
def test_values_that_make_no_sense_are_refused_before_anything_runs(path, value, told):
    config = cell.get_config("cheetah,fb,btd,smoke")
    section, _, field = path.rpartition(".")
    (config[section] if section else config)[field] = value
    with pytest.raises((ConfigError, TaskError), match=told) as error:
        check(config)
    assert field in str(error.value)


def test_ridge_is_a_word_or_a_number():
    config = cell.get_config("cheetah,fb,btd,smoke")
    for value in ("auto", 0.0, 0.5, "0.1"):
        config.infer.ridge = value
        check(config)
