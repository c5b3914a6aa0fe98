"""Task vectors from behaviour: the feature occupancies of sub-trajectories.

    psi(tau) = sum_{t=0}^{L-1} gamma^t phi(s_t),     z_tau = radius psi / |psi|

A sub-trajectory: an episode uniformly, a length uniformly in [min_length, max_length] (0: T), a
start uniformly among those that fit. What is centred, where anything is, are occupancies per step,
psi(tau) / sum_t gamma^t: weighted means of phi, so that long and short pieces weigh the same.

`behaviours` n > 0 (a departure; 0 is the paper) makes tasks of the kind that prompts are answered
with (`infer.behaviours`): z_tau becomes the mean of the n task vectors whose pieces earn most under
it. Such means differ by what many pieces have in common, so there is less to learn.

Features of transitions lie in the row that each led to; a piece's first is then in row start + 1.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key
from ml_collections import ConfigDict

from zsrl_jax.networks import project, sphere_radius

CHUNK = 50  # sub-trajectories whose features are read together


class Behaviour(NamedTuple):
    """The data's features under a frozen encoder, to which a sampler is fitted."""

    phi: Callable[[Int[Array, " n"]], Float[Array, "n row d"]]  # features of whole episodes
    length: Int[Array, " episode"]
    dim: int
    lag: int = 0  # row of a piece's first feature, after its first state: 1 for transitions


class SubTrajectory(NamedTuple):
    """Parts of episodes: the states start, ..., start + length - 1."""

    episode: Int[Array, " n"]
    start: Int[Array, " n"]
    length: Int[Array, " n"]


def draw_subtrajectories(
    key: Key[Array, ""],
    length: Int[Array, " episode"],
    num: int,
    min_length: int,
    max_length: int = 0,
) -> SubTrajectory:
    """Draw sub-trajectories: uniform episode, length in [min_length, max_length], and start."""
    key_episode, key_length, key_start = jax.random.split(key, 3)
    episode = jax.random.randint(key_episode, (num,), 0, length.shape[0])
    longest = length[episode]
    shortest = jnp.minimum(min_length, longest)
    most = jnp.minimum(max_length, longest) if max_length else longest
    piece = jax.random.randint(key_length, (num,), shortest, jnp.maximum(most, shortest) + 1)
    start = jax.random.randint(key_start, (num,), 0, longest - piece + 1)
    return SubTrajectory(episode, start, piece)


def draw_pieces(
    key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict, num: int
) -> SubTrajectory:
    """Draw sub-trajectories as the config's lengths say."""
    shortest, longest = config.min_length, config.max_length
    return draw_subtrajectories(key, behaviour.length, num, shortest, longest)


def occupancy_weight(
    start: Int[Array, " n"], length: Int[Array, " n"], rows: int, discount: float
) -> Float[Array, "n row"]:
    """Return gamma^(t - start) inside each sub-trajectory and 0 outside."""
    age = jnp.arange(rows)[None] - start[:, None]
    inside = (age >= 0) & (age < length[:, None])
    return jnp.where(inside, discount ** jnp.maximum(age, 0).astype(jnp.float32), 0.0)


def occupancies(
    behaviour: Behaviour, pieces: SubTrajectory, discount: float
) -> Float[Array, "n d"]:
    """Return psi of each sub-trajectory, in chunks; weights are positive, so nothing cancels."""

    def psi(piece):
        phi = behaviour.phi(piece.episode[None])[0]
        first = piece.start[None] + behaviour.lag
        weight = occupancy_weight(first, piece.length[None], phi.shape[0], discount)
        return (weight @ phi)[0]

    return jax.lax.map(psi, pieces, batch_size=CHUNK)


def whole_episodes(length: Int[Array, " episode"]) -> SubTrajectory:
    """Return every whole episode as a sub-trajectory, from its first state on."""
    episode = jnp.arange(length.shape[0])
    return SubTrajectory(episode, jnp.zeros_like(episode), length)


def mean_features(
    behaviour: Behaviour, pieces: SubTrajectory, discount: float
) -> Float[Array, "n d"]:
    """Return each piece's occupancy per step: psi / sum_t gamma^t, a weighted mean of phi."""
    steps = pieces.length.astype(jnp.float32)
    weight = steps if discount == 1 else (1 - discount**steps) / (1 - discount)
    return occupancies(behaviour, pieces, discount) / weight[:, None]


def task_vectors(
    behaviour: Behaviour, pieces: SubTrajectory, config: ConfigDict, center: bool | None = None
) -> tuple[Float[Array, "n d"], Float[Array, " d"] | None]:
    """Return z_tau of pieces, and the mean that was taken out of them where `center` asks for it.

    None means the config's own `center`.
    """
    radius, centre = sphere_radius(config.radius, behaviour.dim), None
    if config.center if center is None else center:
        mean = mean_features(behaviour, pieces, config.discount)
        centre = jnp.mean(mean, axis=0)
        mean = mean - centre[None]
    elif config.behaviours:
        mean = mean_features(behaviour, pieces, config.discount)
    else:
        return project(occupancies(behaviour, pieces, config.discount), radius), None
    z = project(mean, radius)
    return (best_means(z, mean, config.behaviours, radius) if config.behaviours else z), centre


def best_means(
    z: Float[Array, "n d"], mean: Float[Array, "n d"], number: int, radius: float
) -> Float[Array, "n d"]:
    """Replace each task vector by the mean of those of the pieces that earn most under it.

    A piece of mean feature m_j earns m_j.z per step. The rule is that of `prompts.best_behaviours`.
    """
    number = min(number, z.shape[0])

    def answer(one):
        _, best = jax.lax.top_k(mean @ one, number)
        return jnp.mean(z[best], axis=0)

    return project(jax.lax.map(answer, z, batch_size=CHUNK), radius)


def behaviour_sizes(
    key: Key[Array, ""],
    behaviour: Behaviour,
    config: ConfigDict,
    centre: Float[Array, " d"] | None = None,
    num: int = 0,
) -> Float[Array, " n"]:
    """Return the lengths of the occupancies per step that `behaviour_tasks` makes vectors of."""
    num = num or config.num_subtrajectories
    pieces = draw_pieces(key, behaviour, config, num)
    mean = mean_features(behaviour, pieces, config.discount)
    return jnp.linalg.norm(mean if centre is None else mean - centre[None], axis=-1)


def behaviour_tasks(
    key: Key[Array, ""],
    behaviour: Behaviour,
    config: ConfigDict,
    centre: Float[Array, " d"] | None = None,
    num: int = 0,
) -> Float[Array, "n d"]:
    """Draw z_tau of `num` pieces, of occupancies per step minus `centre` if given.

    `num` 0 means `num_subtrajectories`.
    """
    num = num or config.num_subtrajectories
    pieces = draw_pieces(key, behaviour, config, num)
    if centre is None:
        psi = occupancies(behaviour, pieces, config.discount)
    else:
        psi = mean_features(behaviour, pieces, config.discount) - centre[None]
    return project(psi, sphere_radius(config.radius, behaviour.dim))
