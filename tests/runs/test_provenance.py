"""What a run says of itself, from its start on."""

import json

import pytest
from helpers.mesh_cases import small

from zsrl_jax.analysis.encoder_studies import train_encoder
from zsrl_jax.errors import ConfigError
from zsrl_jax.runs import provenance
from zsrl_jax.training.run import running


def test_a_run_says_what_it_is_before_its_first_update(noise_dataset, tmp_path):
    config = small("aenc", "uniform")
    with running(config, noise_dataset, tmp_path, quiet=True):
        found = json.loads((tmp_path / provenance.FILE).read_text())
    assert found == provenance.describe(config, noise_dataset)
    assert found["data"]["fingerprint"] == noise_dataset.fingerprint()
    assert set(found) == {"scale", "data", "seeds", "config", "versions"}


def test_a_refused_run_leaves_what_it_found(noise_dataset, tmp_path):
    config = small("aenc", "uniform")
    train_encoder(config, noise_dataset, tmp_path, quiet=True)
    before = (tmp_path / provenance.FILE).read_text()
    config.encoder.dim += 1
    with pytest.raises(ConfigError, match="encoder.dim was"):
        train_encoder(config, noise_dataset, tmp_path, quiet=True)
    assert (tmp_path / provenance.FILE).read_text() == before
