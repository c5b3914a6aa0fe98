"""Where training tasks come from: feature occupancies of sub-trajectories, and the samplers.

    psi(tau) = sum_{t=0}^{L-1} gamma^t phi(s_t),     z_tau = radius psi / |psi|

A sub-trajectory: an episode uniformly, a length uniformly in [min_length, T], a start uniformly
among those that fit. `uniform` draws z from the whole sphere; `btd` from a Gaussian mixture fitted
to z_tau by maximum likelihood. The paper leaves open what becomes of a sample's norm: samples are
projected back to the sphere, because a task is a direction.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key
from ml_collections import ConfigDict

from zsrl_jax import gmm
from zsrl_jax.networks import project, sphere_radius
from zsrl_jax.types import Sampler


class Behaviour(NamedTuple):
    """What the data did, seen through a frozen encoder: what a sampler is fitted to."""

    phi: Callable[[Int[Array, " n"]], Float[Array, "n row d"]]  # features of whole episodes
    length: Int[Array, " episode"]
    dim: int


class SubTrajectory(NamedTuple):
    """Pieces of episodes: the states start, ..., start + length - 1."""

    episode: Int[Array, " n"]
    start: Int[Array, " n"]
    length: Int[Array, " n"]


def draw_subtrajectories(
    key: Key[Array, ""], length: Int[Array, " episode"], num: int, min_length: int
) -> SubTrajectory:
    """Draw pieces: episode uniform, length uniform in [min_length, T], start uniform."""
    key_episode, key_length, key_start = jax.random.split(key, 3)
    episode = jax.random.randint(key_episode, (num,), 0, length.shape[0])
    longest = length[episode]
    shortest = jnp.minimum(min_length, longest)
    piece = jax.random.randint(key_length, (num,), shortest, longest + 1)
    start = jax.random.randint(key_start, (num,), 0, longest - piece + 1)
    return SubTrajectory(episode, start, piece)


def occupancy_weight(
    start: Int[Array, " n"], length: Int[Array, " n"], rows: int, discount: float
) -> Float[Array, "n row"]:
    """Return gamma^(t - start) inside each piece and 0 outside."""
    age = jnp.arange(rows)[None] - start[:, None]
    inside = (age >= 0) & (age < length[:, None])
    return jnp.where(inside, discount ** jnp.maximum(age, 0).astype(jnp.float32), 0.0)


def occupancies(
    behaviour: Behaviour, pieces: SubTrajectory, discount: float, chunk: int = 50
) -> Float[Array, "n d"]:
    """Return psi of each piece, a few at a time: positive weights, so nothing cancels."""

    def psi(piece):
        phi = behaviour.phi(piece.episode[None])[0]
        weight = occupancy_weight(piece.start[None], piece.length[None], phi.shape[0], discount)
        return (weight @ phi)[0]

    return jax.lax.map(psi, pieces, batch_size=chunk)


def behaviour_tasks(
    key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict
) -> Float[Array, "n d"]:
    """Draw z_tau of `num_subtrajectories` pieces of the data."""
    pieces = draw_subtrajectories(
        key, behaviour.length, config.num_subtrajectories, config.min_length
    )
    psi = occupancies(behaviour, pieces, config.discount)
    return project(psi, sphere_radius(config.radius, behaviour.dim))


class Uniform(NamedTuple):
    """The sphere: its radius, and a vector of zeros that carries the dimension."""

    radius: Float[Array, ""]
    centre: Float[Array, " d"]


class Btd(NamedTuple):
    """The Behavioural Task Distribution: a mixture on the sphere of this radius."""

    radius: Float[Array, ""]
    mixture: gmm.Mixture
    trace: gmm.Trace  # log-likelihood by iteration


def fit_uniform(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> Uniform:
    """Return the sphere; nothing of the data is used."""
    radius = jnp.asarray(sphere_radius(config.radius, behaviour.dim), jnp.float32)
    return Uniform(radius, jnp.zeros(behaviour.dim))


def sample_uniform(key: Key[Array, ""], params: Uniform, num: int) -> Float[Array, "n d"]:
    """Draw task vectors uniformly from the sphere."""
    return project(jax.random.normal(key, (num, *params.centre.shape)), params.radius)


def fit_btd(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> Btd:
    """Fit the mixture to the task vectors of sub-trajectories."""
    key_piece, key_fit = jax.random.split(key)
    z = behaviour_tasks(key_piece, behaviour, config)
    mixture, trace = gmm.fit(
        key_fit, z, config.num_components, num_iters=config.num_iters, tolerance=config.tolerance
    )
    radius = jnp.asarray(sphere_radius(config.radius, behaviour.dim), jnp.float32)
    return Btd(radius, mixture, trace)


def sample_btd(key: Key[Array, ""], params: Btd, num: int) -> Float[Array, "n d"]:
    """Draw task vectors from the mixture, projected back to the sphere."""
    return project(params.mixture.sample(key, num), params.radius)


SAMPLERS: dict[str, Sampler] = {
    "uniform": Sampler(fit_uniform, sample_uniform),
    "btd": Sampler(fit_btd, sample_btd),
}
