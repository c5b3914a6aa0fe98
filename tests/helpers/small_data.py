"""Small datasets whose values tell where they stand."""

import numpy as np

from zsrl_jax.data import Dataset


def counter_dataset(lengths, obs_dim=3, action_dim=2) -> Dataset:
    """Episodes whose values tell where they stand: obs = 1000 episode + row, action = -obs."""
    rows = max(lengths) + 1
    place = 1000.0 * np.arange(len(lengths))[:, None] + np.arange(rows)[None]
    obs = np.repeat(place[..., None], obs_dim, axis=-1).astype(np.float32)
    action = -np.repeat(place[:, :-1, None], action_dim, axis=-1).astype(np.float32)
    discount = np.ones(action.shape[:2], np.float32)
    return Dataset(obs, action, discount, np.asarray(lengths, np.int32))


def draw_noise() -> Dataset:
    """Draw the same three episodes of noise every time."""
    draw = np.random.default_rng(0)
    return Dataset(
        draw.normal(size=(3, 21, 4)).astype(np.float32),
        draw.uniform(-1, 1, (3, 20, 2)).astype(np.float32),
        np.ones((3, 20), np.float32),
        np.full(3, 20, np.int32),
    )


def write_counters(folder, names, rows=6, obs_dim=17, action_dim=6, physics_dim=18):
    """Write ExORL episodes: row t of episode e holds 100 e + t, its action 1e-5 of that."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        index = int(name.split("_")[1])
        value = (100.0 * index + np.arange(rows))[:, None]
        wide = lambda n, value=value: np.repeat(value, n, axis=1).astype(np.float32)  # noqa: E731
        np.savez_compressed(
            folder / name, observation=wide(obs_dim), action=1e-5 * wide(action_dim),
            reward=wide(1), discount=np.ones_like(wide(1)),
            physics=wide(physics_dim).astype(np.float64),
        )  # fmt: skip


class Canary:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return open, (str(self.place), "w")
