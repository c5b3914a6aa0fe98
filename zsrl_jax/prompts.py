"""From a prompt to a task vector, in closed form and float64: no training.

    reward          z = argmin_{z,c} mean (r - c - phi(s').z)^2 + ridge |z|^2,  scaled to the radius
    goal            z = (Cov + ridge)^-1 (phi(g) - mean phi)
    demonstration   z = z_tau of the states shown, centred as the training tasks were

The constant c is there where training centred its rewards (`intercept`; without it: the paper).
Then r, r + c and k r (k > 0) get the same z, because a constant in a reward changes no policy.

`behaviours` > 0 (a departure, off; 0 is the paper) answers a reward or a goal by what the data did:
each kept sub-trajectory earns m_tau.z per step, and the answer is the mean task vector of those
that earn most. A policy of behavioural tasks was trained on such vectors, and the z of a reward
lies outside of them (cosine 0.8 to the nearest). Weak policies gain by it, good ones do not
(docs/method.md). `nearest` > 0 takes the mean of the task vectors nearest to z instead. A
demonstration's z is such a vector already; where training took means of behaviours too
(`tasks.behaviours`), so does its answer. A one-stage agent (`policy.kind: own`) keeps no task
vectors and uses its own z.

The one-stage FB agent has z = E[B r] and z = B(g) instead: the same without ridge and constant, on
phi = C^-1 B with C from the same states.

`ridge="auto"` picks the strength, relative to the mean eigenvalue of E[phi phi^T], by generalised
cross-validation; 0 is the paper. At large d features are nearly collinear, and the solution without
ridge consists of directions that phi hardly uses, far from every task the policy has seen.

A goal's covariance gets a ridge of its own: phi nearly contains a constant, and the bare inverse
maps every goal to nearly that one direction. Without `intercept` the matrix is the second moment.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from zsrl_jax.errors import DataError

GOAL_RIDGE = 1e-2  # relative to the mean eigenvalue: phi all but contains a constant
GRID = np.concatenate([[0.0], np.logspace(-8, 2, 31)])


class Regression(NamedTuple):
    """A solved regression: the raw solution, how well it fits unseen states, and its ridge."""

    z: Float[np.ndarray, " d"]
    r2: float  # on held-out states
    ridge: float  # relative to the mean eigenvalue


def solve(
    phi: Float[np.ndarray, "n d"], reward: Float[np.ndarray, " n"], ridge: float | str = "auto"
) -> tuple[Float[np.ndarray, " d"], float]:
    """Return the ridge solution and its strength, from one eigendecomposition."""
    phi, reward = np.asarray(phi, np.float64), np.asarray(reward, np.float64)
    num = len(phi)
    value, vector = np.linalg.eigh(phi.T @ phi / num)
    value = np.maximum(value, 0.0)
    moment = vector.T @ (phi.T @ reward / num)
    keep = value > value[-1] * 1e-13 if value[-1] > 0 else np.zeros(len(value), bool)
    unit = value.mean()

    def weights(strength: float) -> np.ndarray:
        shrunk = np.where(keep, value + strength * unit, 1.0)
        return np.where(keep, moment / shrunk, 0.0)

    if ridge == "auto":
        energy = np.mean(reward**2)

        def score(strength: float) -> float:  # generalised cross-validation
            weight = weights(strength)
            residual = max(energy - 2 * weight @ moment + weight @ (value * weight), 0.0)
            freedom = np.where(keep, value / (value + strength * unit + 1e-300), 0.0).sum()
            return float(residual / max(1 - freedom / num, 1e-6) ** 2)

        strength = float(min(GRID, key=score))
    else:
        strength = float(ridge)
    return vector @ weights(strength), strength


def task_vector(
    phi: Float[np.ndarray, "n d"],
    reward: Float[np.ndarray, " n"],
    ridge: float | str = "auto",
    intercept: bool = False,
) -> Regression:
    """Regress rewards on features; R^2 is measured on every fifth state, left out once.

    With an intercept both sides are centred first: a constant in the reward changes nothing.
    """
    phi = np.asarray(phi, np.float64)
    reward = np.asarray(reward, np.float64)
    if reward.shape != (len(phi),):
        raise DataError(
            f"rewards have shape {reward.shape}: expected one for each of {len(phi)} states"
        )
    if not np.isfinite(reward).all():
        raise DataError(f"reward is not finite in {int((~np.isfinite(reward)).sum())} states")
    z, strength, _ = _fit(phi, reward, ridge, intercept)
    if len(phi) < 10:
        return Regression(z, float("nan"), strength)
    left_out = np.arange(len(phi)) % 5 == 0
    trial, _, constant = _fit(phi[~left_out], reward[~left_out], strength, intercept)
    unseen, told = reward[left_out], phi[left_out] @ trial + constant
    variation = np.sum((unseen - unseen.mean()) ** 2)
    miss = np.sum((unseen - told) ** 2)
    return Regression(z, float(1 - miss / variation) if variation > 0 else float("nan"), strength)


def _fit(
    phi: np.ndarray, reward: np.ndarray, ridge: float | str, intercept: bool
) -> tuple[np.ndarray, float, float]:
    """Return weights, strength and constant of the regression."""
    if not intercept:
        return *solve(phi, reward, ridge), 0.0
    mean, level = phi.mean(axis=0), reward.mean()
    z, strength = solve(phi - mean, reward - level, ridge)
    return z, strength, float(level - mean @ z)


def moment_vector(
    backward: Float[np.ndarray, "n d"], reward: Float[np.ndarray, " n"], ridge: float | str = "auto"
) -> Regression:
    """Return FB's z = E[B r], with the R^2 of the regression on B."""
    fit = task_vector(backward, reward, ridge)
    moment = np.asarray(backward, np.float64).T @ np.asarray(reward, np.float64)
    return fit._replace(z=moment / len(backward))


def goal_vector(
    phi: Float[np.ndarray, "n d"], goal: Float[np.ndarray, " d"], intercept: bool = False
) -> Float[np.ndarray, " d"]:
    """Return E[phi phi^T]^-1 phi(g), estimated on the given features: FB's B(g) on phi = C^-1 B.

    With an intercept: (Cov + GOAL_RIDGE mean eigenvalue)^-1 (phi(g) - mean), the regression of a
    reward that is paid near the goal alone.
    """
    phi = np.asarray(phi, np.float64)
    if intercept:
        mean = phi.mean(axis=0)
        covariance = (phi - mean).T @ (phi - mean) / len(phi)
        ridge = GOAL_RIDGE * np.trace(covariance) / len(covariance)
        shrunk = covariance + ridge * np.eye(len(covariance))
        return np.asarray(np.linalg.solve(shrunk, np.asarray(goal, np.float64) - mean))
    moment = phi.T @ phi / len(phi)
    inverse: np.ndarray = np.linalg.pinv(moment, rcond=1e-8, hermitian=True)
    return np.asarray(inverse @ np.asarray(goal, np.float64))


def demonstration_vector(phi: Float[np.ndarray, "n d"], discount: float) -> Float[np.ndarray, " d"]:
    """Return the discounted feature occupancy of a demonstration, per step."""
    weight = discount ** np.arange(len(phi))
    return np.asarray(weight @ np.asarray(phi, np.float64) / weight.sum())


def nearest_mean(
    z: Float[np.ndarray, " d"], tasks: Float[np.ndarray, "n d"], nearest: int
) -> Float[np.ndarray, " d"]:
    """Return the mean of the `nearest` task vectors around z, by their cosine to it."""
    order = np.argsort(-(tasks @ z), kind="stable")
    return np.asarray(tasks[order[:nearest]].mean(axis=0, dtype=np.float64))


def best_behaviours(
    z: Float[np.ndarray, " d"],
    tasks: Float[np.ndarray, "n d"],
    size: Float[np.ndarray, " n"],
    number: int,
) -> Float[np.ndarray, " d"]:
    """Return the mean task vector of the `number` behaviours of the data that earn most under z.

    A behaviour of task vector z_tau has the occupancy z_tau size_tau (to a common factor), so it
    earns z . z_tau size_tau per step.
    """
    order = np.argsort(-(tasks @ z) * size, kind="stable")
    return np.asarray(tasks[order[:number]].mean(axis=0, dtype=np.float64))


def on_sphere(z: Float[np.ndarray, " d"], radius: float) -> Float[np.ndarray, " d"]:
    """Scale a task vector to the sphere; a zero vector is refused."""
    norm = np.linalg.norm(z)
    if not norm > 0:
        raise DataError("the prompt gives a zero task vector: its reward is 0 on every state")
    return np.asarray(z * (radius / norm), np.float32)
