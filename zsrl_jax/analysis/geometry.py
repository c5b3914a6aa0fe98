"""How much returns differ under a task distribution, and where its tasks lie.

    Sigma = Cov(psi)   of the occupancies of sub-trajectories,   J(tau, z) = psi_tau.z,   |z| = 1

    E_z Var_tau J = E_z z^T Sigma z;     for z uniform on the unit sphere it is Tr(Sigma) / d

(the paper's proposition on vanishing variance). Returns are in the paper's units: task vectors are
scaled to norm 1, and features to a mean square norm of 1, which for an encoder on a sphere is a
division by its radius. Otherwise the radius sqrt(d) that we train with would cancel the 1 / d.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Overlap(NamedTuple):
    """Which set has the nearest sample to a task, over tasks whose nearest is near enough."""

    share: dict[str, float]  # of tasks whose nearest sample is in this set and above the threshold
    cosine: dict[str, float]  # mean over tasks of the best cosine with this set
    threshold: float


def normalized_trace(psi: Float[np.ndarray, "n d"]) -> float:
    """Return Tr(Sigma) / d of occupancies."""
    return float(np.var(np.asarray(psi, np.float64), axis=0).mean())


def return_variance(psi: Float[np.ndarray, "n d"], z: Float[np.ndarray, "m d"]) -> float:
    """Return the variance over behaviours of psi.z, averaged over tasks."""
    psi, z = np.asarray(psi, np.float64), unit(z)
    parts = np.array_split(z, max(1, len(psi) * len(z) // 10_000_000))
    return float(np.concatenate([np.var(psi @ part.T, axis=0) for part in parts]).mean())


def overlap(
    tasks: Float[np.ndarray, "t d"],
    samples: dict[str, Float[np.ndarray, "n d"]],
    threshold: float = 0.5,
) -> Overlap:
    """Return for each set of samples the share of tasks whose nearest neighbour is in it."""
    best = np.stack([(unit(tasks) @ unit(z).T).max(axis=1) for z in samples.values()])
    winner, near = best.argmax(axis=0), best.max(axis=0) >= threshold
    share = {name: float(np.mean((winner == i) & near)) for i, name in enumerate(samples)}
    cosine = {name: float(best[i].mean()) for i, name in enumerate(samples)}
    return Overlap(share, cosine, threshold)


def principal_plane(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n 2"]:
    """Project points to their first two principal components; signs are fixed by the data."""
    x = np.asarray(x, np.float64)
    centred = x - x.mean(axis=0, keepdims=True)
    _, vector = np.linalg.eigh(centred.T @ centred)
    plane = vector[:, ::-1][:, :2]
    largest = np.abs(plane).argmax(axis=0)
    plane = plane * np.sign(plane[largest, np.arange(plane.shape[1])])[None]
    return centred @ plane


def unit(z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Scale vectors to norm 1."""
    z = np.asarray(z, np.float64)
    return z / np.linalg.norm(z, axis=1, keepdims=True)
