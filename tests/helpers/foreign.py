"""Small datasets in other people's formats, whose every value says where it stands."""

import json

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.dataset

from zsrl_jax.data import Dataset

LENGTHS = (4, 2, 6)


def episodes(obs_dim=3, action_dim=2):
    """Yield obs, action, reward and terminal of episodes that say where they stand."""
    for i, steps in enumerate(LENGTHS):
        value = 100.0 * i + np.arange(steps + 1)
        obs = np.repeat(value[:, None], obs_dim, axis=1).astype(np.float32)
        action = np.repeat(value[:-1, None] / 1000, action_dim, axis=1).astype(np.float32)
        terminal = (np.arange(steps) == steps - 1) & (i != 1)  # the second one ran out of time
        yield obs, action, value[1:].astype(np.float32), terminal


def expected():
    obs, action, reward, terminal = zip(*episodes(), strict=True)
    return Dataset.from_arrays(obs, action, reward=reward, terminal=terminal)


def same(one, other, reward=True, discount=True):
    np.testing.assert_array_equal(one.length, other.length)
    for a, b in zip(one.episodes(), other.episodes(), strict=True):
        np.testing.assert_array_equal(a.obs, b.obs)
        np.testing.assert_allclose(a.action, b.action, rtol=1e-6, atol=1e-7)
        if discount:
            np.testing.assert_array_equal(a.discount, b.discount)
        if reward:
            np.testing.assert_array_equal(a.reward, b.reward)


def ogbench_arrays(masks=True):
    rows = {key: [] for key in ("observations", "actions", "terminals", "rewards", "masks")}
    for obs, action, reward, terminal in episodes():
        rows["observations"].append(obs)
        rows["actions"].append(np.concatenate([action, action[-1:] * 0 + 0.5]))
        rows["terminals"].append(np.arange(len(obs)) == len(obs) - 1)
        rows["rewards"].append(np.append(reward, 7.0))
        rows["masks"].append(np.append(~terminal, True))
    flat = {key: np.concatenate(parts).astype(np.float32) for key, parts in rows.items()}
    if not masks:
        del flat["masks"], flat["rewards"]
    return flat


def d4rl_arrays(whole=True):
    keys = ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")
    rows = {key: [] for key in keys}
    for obs, action, reward, terminal in episodes():
        last = np.arange(len(action)) == len(action) - 1
        parts = (obs[:-1], action, reward, terminal, last & ~terminal, obs[1:])
        for key, part in zip(keys, parts, strict=True):
            rows[key].append(part)
    flat = {key: np.concatenate(parts) for key, parts in rows.items()}
    if not whole:
        del flat["next_observations"]
    return flat


def write_hdf5(path, flat):
    with h5py.File(path, "w") as file:
        for key, value in flat.items():
            file[key] = value


def write_minari(folder, low=-1.0, high=1.0):
    (folder / "data").mkdir(parents=True)
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
        for i, (obs, action, reward, terminal) in enumerate(episodes()):
            group = file.create_group(f"episode_{i}")
            group.attrs["total_steps"] = len(action)
            group["observations/b"], group["observations/a"] = obs[:, 1:], obs[:, :1]
            group["actions"] = low + (action + 1) / 2 * (high - low)
            group["rewards"], group["terminations"] = reward, terminal
            group["truncations"] = ~terminal
    write_space(folder / "data", low, high)


def write_space(folder, low, high):
    space = {"type": "Box", "shape": [2], "low": [low] * 2, "high": [high] * 2}
    (folder / "metadata.json").write_text(json.dumps({"action_space": json.dumps(space)}))


def write_arrow(folder):
    (folder / "data").mkdir(parents=True)
    for i, (obs, action, reward, terminal) in enumerate(episodes()):
        fixed = lambda x: pa.FixedSizeListArray.from_arrays(x.ravel(), x.shape[1])  # noqa: E731
        pad = lambda x: np.concatenate([x, x[:1] * 0])  # noqa: E731
        parts = [fixed(obs[:, 1:]), fixed(obs[:, :1])]
        batch = pa.RecordBatch.from_pydict(
            {
                "episode_id": np.full(len(obs), i, np.int32),
                "observations": pa.StructArray.from_arrays(parts, names=["b", "a"]),
                "actions": fixed(pad(action)),
                "rewards": pad(reward),
                "terminations": pad(terminal),
                "truncations": pad(~terminal),
            }
        )
        pa.dataset.write_dataset(
            batch, folder / "data", format="arrow", partitioning=["episode_id"],
            existing_data_behavior="overwrite_or_ignore",
        )  # fmt: skip
        facts = {"id": i, "total_steps": len(action)}
        (folder / "data" / str(i) / "metadata.json").write_text(json.dumps(facts))
    write_space(folder / "data", -1.0, 1.0)
