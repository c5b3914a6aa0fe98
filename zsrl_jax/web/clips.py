"""Clips of the data for demonstrations, and poses for goals: each is the extreme of a quantity."""

from typing import NamedTuple

import numpy as np

from zsrl_jax.data import Dataset
from zsrl_jax.rewards import quantity_columns

STEPS = 100  # of a clip
NUMBER = 6  # clips at most
EPISODES = 512  # of the data at most, where they are looked for
QUANTITIES = ("speed", "height", "uprightness", "angular_momentum_y")
POSES = 12


class Clip(NamedTuple):
    """States in a row, with what they have most or least of."""

    label: str  # such as "most speed"
    obs: np.ndarray  # [T, O]
    physics: np.ndarray  # [T, P]


def choose_clips(dataset: Dataset, domain: str) -> list[Clip]:
    """Return the pieces of the data with the most and the least of a few quantities."""
    if dataset.physics is None:
        return []
    starts, columns = [], []
    for episode in range(0, dataset.num_episodes, max(1, dataset.num_episodes // EPISODES)):
        steps = int(dataset.length[episode])
        if steps < STEPS:
            continue
        found = quantity_columns(domain, dataset.physics[episode, : steps + 1])
        pieces = np.arange(0, steps + 2 - STEPS, STEPS // 2)
        starts += [(episode, int(first)) for first in pieces]
        for _, first in starts[-len(pieces) :]:
            span = slice(first, first + STEPS)
            columns.append({n: found[n][span].mean() for n in QUANTITIES if n in found})
    taken: list[Clip] = []
    used: set[int] = set()
    for name in [n for n in QUANTITIES if columns and n in columns[0]]:
        value = np.array([column[name] for column in columns])
        for word, place in (("most", int(value.argmax())), ("least", int(value.argmin()))):
            if place in used or len(taken) == NUMBER:
                continue
            used.add(place)
            which, begin = starts[place]
            rows = slice(begin, begin + STEPS)
            label = f"{word} {name.replace('_', ' ')}"
            taken.append(Clip(label, dataset.obs[which, rows], dataset.physics[which, rows]))
    return taken


def choose_poses(phi: np.ndarray) -> np.ndarray:
    """Return indices of states that differ much: each is the farthest from those before, by phi."""
    chosen = [0]
    distance = np.linalg.norm(phi - phi[0], axis=1)
    while len(chosen) < min(POSES, len(phi)):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(phi - phi[chosen[-1]], axis=1))
    return np.asarray(chosen)
