"""Probes: where the right answer is known, training finds it.

Three places, a Markov chain between them that visits all alike, a noisy observation of each. The
action tells nothing.
"""

import jax
import numpy as np
import pytest

from zsrl_jax import networks
from zsrl_jax.data import Dataset, fit_normalizer, to_device
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.settings import fields
from zsrl_jax.training.loop import make_loop
from zsrl_jax.types import Spec

CHAIN = np.array([[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.3, 0.1, 0.6]])  # columns add up to 1 too
CENTRES = np.array([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]], np.float32)
GAMMA = 0.5
SUCCESSOR = np.linalg.inv(np.eye(3) - GAMMA * CHAIN) @ CHAIN  # sum_t gamma^t P^(t+1)
HIDDEN, CHUNK = (16,), 750


@pytest.fixture(scope="module")
def store():
    draw = np.random.default_rng(0)
    place = draw.integers(3, size=(16, 257))
    for t in range(256):
        place[:, t + 1] = [draw.choice(3, p=CHAIN[p]) for p in place[:, t]]
    obs = CENTRES[place] + 0.05 * draw.normal(size=(*place.shape, 2)).astype(np.float32)
    action = draw.uniform(-1, 1, (16, 256, 1)).astype(np.float32)
    dataset = Dataset(obs, action, np.ones((16, 256), np.float32), np.full(16, 256, np.int32))
    return to_device(dataset, fit_normalizer(dataset, "none"))


def learned(name, store):
    """Train an encoder; return its parameters, phi of the three places, and the last metrics."""
    config = fields.get_config("cheetah", name, "uniform").encoder
    config.update({"dim": 3, "hidden": HIDDEN, "batch": 128, "learning_rate": 5e-3})
    config.update({"discount": GAMMA, "target_rate": 0.05})
    encoder = ENCODERS[name].make(config, Spec(2, 1))
    loop = jax.jit(make_loop(encoder.sample, encoder.update, CHUNK))
    state = jax.jit(encoder.init)(jax.random.key(0))
    for half in range(2):
        state, metrics = loop(state, jax.random.key(1), store, half * CHUNK)
    frozen = encoder.freeze(jax.random.key(2), state.params, store)
    return state.params, np.asarray(encoder.features(frozen, CENTRES)), metrics


@pytest.mark.parametrize(
    ("name", "inputs", "ahead"),
    [("lra_p", (CENTRES, np.zeros((3, 1), np.float32)), CHAIN), ("lra_sr", (CENTRES,), SUCCESSOR)],
)
def test_factors_multiply_to_the_density_they_stand_for(name, inputs, ahead, store):
    params, phi, _ = learned(name, store)
    head = networks.mlp([x.shape[1] for x in inputs], HIDDEN, 3)
    left = np.asarray(head.apply(params["left"], *inputs))
    np.testing.assert_allclose(left @ phi.T / 3, ahead, atol=0.1)


def test_one_step_fb_factors_the_data_s_successor_measure(store):
    params, phi, _ = learned("fb_onestep", store)
    forward = networks.mlp((2, 1), HIDDEN, 3)
    left = np.asarray(forward.apply(params["forward"], CENTRES, np.zeros((3, 1), np.float32)))
    backward = np.asarray(networks.sphere_mlp(2, HIDDEN, 3, 3**0.5).apply(params["phi"], CENTRES))
    np.testing.assert_allclose(left @ backward.T / 3, SUCCESSOR, atol=0.15)
    moment = backward.T @ backward / 3  # all places are visited alike
    np.testing.assert_allclose(phi @ moment, backward, atol=0.1)


@pytest.mark.parametrize(
    ("name", "term", "ahead"),
    [("byol", "prediction", CHAIN), ("byol_gamma", "forward", (1 - GAMMA) * SUCCESSOR)],
)
def test_latent_prediction_leaves_what_chance_decides_and_does_not_collapse(
    name, term, ahead, store
):
    _, phi, metrics = learned(name, store)
    chance = np.mean(np.sum(phi**2, axis=1)) - np.mean(np.sum((ahead @ phi) ** 2, axis=1))
    assert metrics["encoder/effective_rank"] > 1.8  # three places span a plane
    assert metrics[f"encoder/{term}"] == pytest.approx(chance, rel=0.1)


def test_an_autoencoder_gives_the_state_back(store):
    _, _, metrics = learned("aenc", store)
    assert metrics["encoder/reconstruction"] < 0.01 * np.var(store.obs, axis=(0, 1)).mean()
