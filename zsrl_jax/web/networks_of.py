"""The networks of an agent as lists of layers, which the browser multiplies in order.

Features are relu(x W + b) per hidden layer, then x W + b, scaled to the sphere, times C^-1 of fb.
The actor is `networks.actor`: two streams, joined.
"""

from typing import Any

import jax
import numpy as np

from zsrl_jax.agent import Agent
from zsrl_jax.errors import DataError


def member_of(tree: Any, member: int) -> Any:
    """Return one seed's numbers of a tree whose axis 0 is the seed."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[member], tree)


def feature_layers(agent: Agent, member: int) -> dict[str, np.ndarray]:
    """Return phi's layers by name; refuse an encoder whose features they do not give."""
    if agent.of_transitions:
        raise DataError(
            f"the page shows features of states, and those of the encoder "
            f"'{agent.config.encoder.name}' are of transitions: expected another encoder"
        )
    params = member_of(agent.params.encoder, member)
    inverse = params.get("inverse") if isinstance(params, dict) else None
    net = params.get("backward", params) if isinstance(params, dict) else {}
    names = [f"Dense_{i}" for i in range(len(net))]
    if not names or sorted(net) != sorted(names):
        raise DataError(_unknown(agent))
    found: dict[str, np.ndarray] = {}
    for i, name in enumerate(names):
        found[f"phi/{i}/kernel"], found[f"phi/{i}/bias"] = net[name]["kernel"], net[name]["bias"]
    if inverse is not None:
        found["phi/inverse"] = inverse
    obs = np.asarray(agent.params.prompt_obs)[:8]
    wanted = agent.features(obs)[member]
    if not np.allclose(_features(agent, found, obs), wanted, rtol=1e-3, atol=1e-3):
        raise DataError(_unknown(agent))
    return found


def _unknown(agent: Agent) -> str:
    return (
        f"the page cannot compute the features of the encoder '{agent.config.encoder.name}': "
        "expected a ReLU network on a sphere, as most encoders of zsrl_jax are"
    )


def _features(agent: Agent, layers: dict[str, np.ndarray], obs: np.ndarray) -> np.ndarray:
    """Compute phi as the browser does."""
    norm = agent.params.normalizer
    x = (np.asarray(obs, np.float64) - np.asarray(norm.mean)) / np.asarray(norm.scale)
    x = np.clip(x, -np.asarray(norm.clip), np.asarray(norm.clip))
    last = sum(name.endswith("bias") for name in layers) - 1
    for i in range(last + 1):
        x = x @ layers[f"phi/{i}/kernel"] + layers[f"phi/{i}/bias"]
        x = np.maximum(x, 0) if i < last else x
    x = x * (agent.radius / np.sqrt(np.maximum((x * x).sum(axis=-1, keepdims=True), 1e-12)))
    return x @ layers["phi/inverse"] if "phi/inverse" in layers else x


def actor_layers(agent: Agent, member: int) -> dict[str, np.ndarray]:
    """Return the actor's layers by name."""
    flat = jax.tree_util.tree_flatten_with_path(member_of(agent.params.actor, member))[0]
    return {"actor/" + "/".join(key.key for key in path): leaf for path, leaf in flat}
