"""Configs: every cell at every scale is complete, locked, and chosen by its argument."""

import importlib.util
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from helpers.person import ROOT
from ml_collections import ConfigDict

from zsrl_jax import DOMAINS, ENCODERS, SAMPLERS
from zsrl_jax.encoders.base import row_features
from zsrl_jax.errors import ConfigError, TaskError
from zsrl_jax.settings import by_name, cells, fields, scales
from zsrl_jax.settings.checks import check
from zsrl_jax.settings.names import cell_name
from zsrl_jax.settings.scales import SCALES
from zsrl_jax.types import Spec, Store

NAMED = sorted((ROOT / "configs").glob("[a-z]*_*_*.py"))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_cell_is_complete_and_locked(scale, encoder, sampler):
    for domain in DOMAINS:
        config = cells.cell_from_text(f"{domain},{encoder},{sampler},{scale}")
        assert config.scale == scale and cell_name(config) == f"{domain}_{encoder}_{sampler}"
        check(config)
        with pytest.raises(AttributeError, match="updates"):
            config.policy.update_s = 3


@pytest.mark.parametrize("encoder", ENCODERS)
def test_an_encoder_s_config_has_its_own_fields_alone(encoder):
    common = set(fields.get_config("cheetah", "aenc", "btd").encoder)  # aenc adds none
    assert not set(ENCODERS["aenc"].default_config())
    for scale in SCALES:
        section = cells.config("cheetah", encoder, "btd", scale).encoder
        assert set(section) == common | set(ENCODERS[encoder].default_config())
        assert section.updates == {
            "paper": 2_000_000 if encoder == "fb" else 100_000, "laptop": 8000, "smoke": 60,
        }[scale]  # fmt: skip


def test_a_table_cannot_add_a_field(monkeypatch):
    monkeypatch.setitem(scales.OF_ENCODER, ("smoke", "aenc"), {"encoder": {"width": 32}})
    with pytest.raises(KeyError, match="width"):
        cells.config("cheetah", "aenc", "btd", "smoke")


@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_encoder_builds_at_every_scale(encoder):
    """Shapes alone: nothing is computed."""
    for scale in SCALES:
        section = cells.config("cheetah", encoder, "uniform", scale).encoder
        made = ENCODERS[encoder].make(section, Spec(17, 6))
        shapes = (2, 9, 17), (2, 8, 6), (2, 8)
        arrays = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        store = Store(*arrays, jax.ShapeDtypeStruct((2,), jnp.int32))

        def run(key, store, made=made):
            state = made.init(key)
            state, metrics = made.update(state, made.sample(key, store), key, 0)
            frozen = made.freeze(key, state.params, store)
            return state, metrics, row_features(made, frozen, store.obs)

        _, metrics, phi = jax.eval_shape(run, jax.random.key(0), store)
        assert phi.shape == (2, 9, section.dim)
        assert {
            f"encoder/{n}"
            for n in ("loss", "objective", "orthonormality", "norm", "effective_rank")
        } < metrics.keys()


def test_auto_follows_the_backend(monkeypatch):
    assert by_name.NAMES["cheetah_fb_btd"]().scale == "laptop"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    config = by_name.NAMES["cheetah_fb_btd"]("auto")
    assert config.scale == "paper" and "gpu" in config.scale_reason


def test_paper_scale_has_the_paper_s_numbers():
    config = by_name.NAMES["cheetah_fb_btd"]("paper")
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
        cells.cell_from_text("cheetah,fb,uniforn")
    with pytest.raises(TaskError, match="unknown encoder 'xy'"):
        cells.cell_from_text("cheetah,xy,btd")
    with pytest.raises(ConfigError, match="did you mean 'laptop'"):
        cells.cell_from_text("cheetah,fb,btd,labtop")
    with pytest.raises(ConfigError, match="has 1 parts"):
        cells.cell_from_text("cheetah")


@pytest.mark.parametrize("file", NAMED, ids=lambda f: f.name)
def test_named_configs_are_the_cell_of_their_name(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert cell_name(module.get_config("smoke")) == file.stem
    assert "python -m experiments.run" in module.__doc__


@pytest.mark.parametrize(
    ("domain", "scale", "explorer"),
    [
        *((domain, "laptop", "shipped") for domain in ("cheetah", "walker")),
        *((domain, "paper", "shipped") for domain in ("cheetah", "walker", "quadruped")),
        ("quadruped", "laptop", "train"),
        ("walker", "smoke", "train"),
    ],
)
def test_who_explores(domain, scale, explorer):
    """As README and docs/data.md say."""
    assert cells.config(domain, "fb", "btd", scale).data.collect.explorer == explorer


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("data.normalize", "nonee", "did you mean 'none'"),
        ("encoder.radius", "sqrtd", "did you mean 'sqrt_d'"),
        ("encoder.discount", 1.0, "expected at least 0 and below 1"),
        ("encoder.backward_stop_gradient", "targets", "did you mean 'target'"),
        ("policy.head", "vector", "successor"),
        ("policy.policy_delay", 0, "expected at least 1"),
        ("policy.kind", "owned", "did you mean 'own'"),
        ("tasks.alpha", 1.5, "expected 0 to 1"),
        ("tasks.alpha", -0.1, "expected 0 to 1"),
        ("tasks.min_length", 0, "expected at least 1"),
        ("tasks.moves", -1, "expected at least 0"),
        ("evaluate.episodes", 0, "expected at least 1"),
        ("evaluate.every", 30, "multiple of config.log_every"),
        ("infer.ridge", "abc", "expected auto or a number"),
        ("infer.ridge", -1.0, "expected auto or a number"),
        ("domain", "walkerr", "did you mean 'walker'"),
    ],
)
def test_values_that_make_no_sense_are_refused_before_anything_runs(path, value, told):
    encoder = "byol_gamma" if "backward" in path else "fb"
    config = cells.cell_from_text(f"cheetah,{encoder},btd,smoke")
    section, _, field = path.rpartition(".")
    (config[section] if section else config)[field] = value
    with pytest.raises((ConfigError, TaskError), match=told) as error:
        check(config)
    assert field in str(error.value)


@pytest.mark.parametrize("scale", SCALES)
def test_tuned_fb_is_a_preset_with_a_name_of_its_own(scale):
    tuned = cells.cell_from_text(f"cheetah,fb_tuned,btd,{scale}")
    plain = cells.cell_from_text(f"cheetah,fb,btd,{scale}")
    check(tuned)
    assert cell_name(tuned) == "cheetah_fb_tuned_btd" and tuned.encoder.name == "fb"
    assert tuned.encoder.batch == 2 * plain.encoder.batch
    assert (tuned.encoder.discount, tuned.policy.discount, tuned.tasks.discount) == (0.98,) * 3
    assert tuned.encoder.backward_norm and not plain.encoder.backward_norm
    with pytest.raises(TaskError, match="did you mean 'fb_tuned'"):
        cells.cell_from_text("cheetah,fb_tune,btd")


def test_ridge_is_a_word_or_a_number():
    config = cells.cell_from_text("cheetah,fb,btd,smoke")
    for value in ("auto", 0.0, 0.5, "0.1"):
        config.infer.ridge = value
        check(config)


def test_own_policy_is_for_encoders_that_train_one(monkeypatch):
    config = cells.cell_from_text("cheetah,fb,goal_mix,smoke")
    config.policy.kind = "own"
    check(config)
    assert cell_name(config) == "cheetah_fb_own"
    monkeypatch.setitem(ENCODERS, "plain", SimpleNamespace(default_config=ConfigDict))
    config.encoder.name = "plain"
    with pytest.raises(ConfigError, match="kind is own, but the encoder plain trains no policy"):
        check(config)
