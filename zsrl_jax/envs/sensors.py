"""Quantities without a closed form (contacts, forces, accelerations), from MuJoCo in batches.

    y = y(mj_forward(qpos, qvel, act)),   ctrl = 0, no warm start

A state does not hold the controls. Where they act directly (cheetah, walker), forces are those
with motors off. Where they act through `act` (quadruped), forces are those of the state.
"""

import os
from typing import Any

import mujoco.batch
import numpy as np

from zsrl_jax.envs.domain import Domain
from zsrl_jax.envs.registry import find_domain
from zsrl_jax.errors import DataError, TaskError, unknown

PIECE = 4096


def measure(
    domain: str | Domain, physics: Any, *names: str, num_threads: int | None = None
) -> dict[str, np.ndarray]:
    """Return named sensors or MjData fields [..., k] of states [..., P].

    A user's reward may call it: `measure("quadruped", physics, "force_toe_front_left")`.
    """
    found = find_domain(domain)
    model = found.model()
    physics = np.asarray(physics, np.float64)
    if physics.ndim == 0 or physics.shape[-1] != found.physics_dim:
        raise DataError(f"physics {physics.shape}: expected [..., {found.physics_dim}]")
    flat = physics.reshape(-1, found.physics_dim)
    threads = num_threads or os.cpu_count() or 1
    batch = mujoco.batch.Batch(model, max(1, min(PIECE, len(flat))), threads, persistent=True)
    sources = {name: _source(batch, name) for name in names}
    pieces: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for i in range(0, max(len(flat), 1), PIECE):
        rows = flat[i : i + PIECE]
        ids = np.arange(len(rows))
        batch.reset(ids, stage=int(mujoco.mjtStage.mjSTAGE_NONE))
        split = np.split(rows, [model.nq, model.nq + model.nv], axis=1)
        batch.qpos[ids], batch.qvel[ids], batch.act[ids] = split
        batch.forward(ids)
        for name, source in sources.items():
            pieces[name].append(source[ids].copy())
    joined = {name: np.concatenate(parts) for name, parts in pieces.items()}
    return {name: x.reshape(physics.shape[:-1] + x.shape[1:]) for name, x in joined.items()}


def _source(batch: mujoco.batch.Batch, name: str) -> np.ndarray:
    """Return the live array of a sensor, or of an MjData field."""
    model = batch.model
    sensors = [model.sensor(i).name for i in range(model.nsensor)]
    if name in sensors:
        sensor = model.sensor(name)
        first = int(sensor.adr[0])
        return batch.bind("sensordata")[:, first : first + int(sensor.dim[0])]
    if name in mujoco.batch.DATA_FIELDS:
        return batch.bind(name)
    raise TaskError(unknown("sensor or MjData field", name, [*sensors, "cfrc_ext", "qacc", "xpos"]))
