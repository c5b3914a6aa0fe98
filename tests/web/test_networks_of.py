"""The layers that a page ships give the features of every encoder; others are refused."""

import jax
import numpy as np
import pytest
from helpers.untrained import make_agent

import zsrl_jax
from zsrl_jax.errors import DataError
from zsrl_jax.web.networks_of import _seen, feature_layers, policy_layers


@pytest.mark.parametrize("encoder", [*zsrl_jax.ENCODERS, "fb, tuned"])
def test_features_of_every_encoder(encoder):
    name, _, tuned = encoder.partition(", ")
    agent = make_agent(encoder=name, **({"encoder.backward_norm": True} if tuned else {}))
    layers, states = feature_layers(agent, 0), np.asarray(agent.prompt_states)[:50]
    np.testing.assert_allclose(
        _seen(agent, layers, states), agent.features(states)[0], rtol=1e-4, atol=1e-4
    )
    names = set(policy_layers(agent, 0))
    assert {"actor0/Dense_0/kernel", "actor0/_Stream_1/LayerNorm_0/scale"} <= names


def test_another_network_is_refused_by_the_encoder_s_name():
    agent = make_agent(encoder="aenc")
    shifted = jax.tree.map(lambda leaf: leaf, agent.params.encoder)
    agent.params = agent.params._replace(encoder={"other": shifted})
    with pytest.raises(DataError, match="cannot compute the features of the encoder 'aenc'"):
        feature_layers(agent, 0)
