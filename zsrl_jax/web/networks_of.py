"""The networks of an agent as lists of layers, which the browser multiplies in order.

A hidden layer is relu(x W + b); the first is tanh(norm(x W + b)) where the encoder norms it. Then
x W + b is scaled to the sphere, times C^-1 of fb. Features of transitions are a constant times the
difference between both states. The actor is `networks.actor`, the critic `networks.twin`: two
streams, joined.
"""

from typing import Any

import jax
import numpy as np

from zsrl_jax import acting
from zsrl_jax.agent import Agent
from zsrl_jax.errors import DataError


def member_of(tree: Any, member: int) -> Any:
    """Return one seed's numbers of a tree whose axis 0 is the seed."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[member], tree)


def feature_layers(agent: Agent, member: int) -> dict[str, np.ndarray]:
    """Return phi's layers by name; refuse an encoder whose features they do not give."""
    params = member_of(agent.params.encoder, member)
    parts = params if isinstance(params, dict) else {}
    net = next((parts[name] for name in ("backward", "phi") if name in parts), parts)
    names = [f"Dense_{i}" for i in range(sum(name.startswith("Dense_") for name in net))]
    if not names or set(net) - {*names, "LayerNorm_0"}:
        raise DataError(_unknown(agent))
    found: dict[str, np.ndarray] = {}
    for i, name in enumerate(names):
        found[f"phi/{i}/kernel"], found[f"phi/{i}/bias"] = net[name]["kernel"], net[name]["bias"]
    if "LayerNorm_0" in net:
        found |= {f"phi/norm/{name}": net["LayerNorm_0"][name] for name in ("scale", "bias")}
    if "inverse" in parts:
        found["phi/inverse"] = parts["inverse"]
    if agent.of_transitions:
        found["phi/constant"] = np.reshape(parts.get("scale", np.nan), 1)
        before = _features(agent, found, np.asarray(agent.params.prompt_before))
        found["phi/before"] = before.mean(axis=0)  # a goal is the mean way there
    states = np.asarray(agent.prompt_states)[:8]
    wanted = agent.features(states)[member]
    if not np.allclose(_seen(agent, found, states), wanted, rtol=1e-3, atol=1e-3):
        raise DataError(_unknown(agent))
    return found


def _unknown(agent: Agent) -> str:
    return (
        f"the page cannot compute the features of the encoder '{agent.config.encoder.name}': "
        "expected a ReLU network on a sphere, or the difference of one between two states"
    )


def _seen(agent: Agent, layers: dict[str, np.ndarray], states: np.ndarray) -> np.ndarray:
    """Compute what `agent.features` gives, as the browser does."""
    if not agent.of_transitions:
        return _features(agent, layers, states)
    before, after = (_features(agent, layers, states[:, i]) for i in (0, 1))
    return after - before


def _features(agent: Agent, layers: dict[str, np.ndarray], obs: np.ndarray) -> np.ndarray:
    """Compute phi of states; of transitions, what the difference is taken of."""
    norm = agent.params.normalizer
    x = (np.asarray(obs, np.float64) - np.asarray(norm.mean)) / np.asarray(norm.scale)
    x = np.clip(x, -np.asarray(norm.clip), np.asarray(norm.clip))
    last = sum(name.endswith("kernel") for name in layers) - 1
    for i in range(last + 1):
        x = x @ layers[f"phi/{i}/kernel"] + layers[f"phi/{i}/bias"]
        if i == 0 and "phi/norm/scale" in layers:
            x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-6)
            x = np.tanh(x * layers["phi/norm/scale"] + layers["phi/norm/bias"])
        elif i < last:
            x = np.maximum(x, 0)
    if "phi/constant" in layers:
        return x * layers["phi/constant"]
    x = x * (agent.radius / np.sqrt(np.maximum((x * x).sum(axis=-1, keepdims=True), 1e-12)))
    return x @ layers["phi/inverse"] if "phi/inverse" in layers else x


def policy_layers(agent: Agent, member: int) -> dict[str, np.ndarray]:
    """Return the layers of what acts by name: of each learner the actor's, and the critic's.

    Critics are there if they choose, with the corners that they choose among.
    """
    params, config = member_of(agent.params.actor, member), agent.config.policy
    if agent.is_own or not acting.chooses(config):
        return _named({"actor0": params})
    each = enumerate(acting.learners_of(config, params))
    found = _named({f"{part}{i}": one[part] for i, one in each for part in ("actor", "critic")})
    return found | {"candidates": acting.corners(agent.spec.action_dim, config.candidates)}


def _named(tree: Any) -> dict[str, np.ndarray]:
    flat = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {"/".join(key.key for key in path): leaf for path, leaf in flat}
