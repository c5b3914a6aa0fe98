"""Random pushes: stretches of an episode in which a random corner of the action space is held.

    a_t = strength corner,   corner in {-1, 1}^A, strength ~ U[0.3, 1], for PUSH steps on average

Noise from step to step averages out. A push that lasts moves a robot far: a quadruped on its back
gets up by one, now and then, and from there an explorer paid for novelty can learn to get up.
Most of them did (docs/results/quadruped.md). Only domains that ask for it (`Domain.pushed`) are
pushed: a walker that was pushed fell more often, and an agent learned less from such data.
"""

import numpy as np
from jaxtyping import Float

PUSH = 40  # steps that a push lasts, on average
WEAKEST = 0.3  # strength of a push, at least; 1 is the limit of the actions
STREAM = 7  # of an episode's random numbers, so that pushes share none with its noise


def draw_pushes(
    seed: int, episodes: range, shape: tuple[int, int], share: float
) -> Float[np.ndarray, "n step action"]:
    """Draw the pushes of some episodes, for a share of the steps; NaN where there is none.

    `shape` is (steps, actions). An episode's pushes depend on the seed and its number alone.
    """
    return np.stack(
        [_draw(np.random.default_rng([seed, i, STREAM]), shape, share) for i in episodes]
    )


def pushed(
    push: Float[np.ndarray, "n action"], chosen: Float[np.ndarray, "n action"]
) -> np.ndarray:
    """Return the actions of a step: the push where there is one, else what was chosen."""
    return np.where(np.isnan(push), chosen, push)


def _draw(draw: np.random.Generator, shape: tuple[int, int], share: float) -> np.ndarray:
    push, step = np.full(shape, np.nan), 0
    while share and step < shape[0]:
        step += int(draw.exponential(PUSH * (1 - share) / share))
        end = step + 1 + int(draw.exponential(PUSH))
        push[step:end] = np.sign(draw.uniform(-1, 1, shape[1])) * draw.uniform(WEAKEST, 1)
        step = end
    return push
