"""Many episodes of one domain, stepped together: `mujoco.batch.Batch` with dm_control's semantics.

    state <- mj_step^substeps(state, ctrl),   obs = observe(state, fields at stage VEL)

dm_control finishes a step with mj_step1: fields of position and velocity then belong to the new
state, fields of acceleration to the step just taken. Stage VEL of a persistent batch does the same.
All tasks of a domain have the same dynamics, so one batch serves them all.
"""

import os
from collections.abc import Sequence

import mujoco
import mujoco.batch
import numpy as np

from zsrl_jax.envs.domain import Domain
from zsrl_jax.envs.registry import find_domain
from zsrl_jax.errors import DataError

STAGE = mujoco.mjtStage
NO_ACTUATION = int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
INTEGRATION = int(mujoco.mjtState.mjSTATE_INTEGRATION)


class Simulator:
    """num_envs episodes of a domain, stepped together on num_threads threads (default: all)."""

    def __init__(self, domain: str | Domain, num_envs: int, num_threads: int | None = None):
        self.domain = find_domain(domain)
        self.num_envs = num_envs
        self._model = self.domain.model()
        threads = num_threads or os.cpu_count() or 1
        self._batch = mujoco.batch.Batch(
            self._model, num_envs, min(threads, num_envs), persistent=True
        )
        self._disable = self._batch.expand("opt.disableflags")
        self._enabled = self._disable.copy()
        low, high = self._model.actuator_ctrlrange.T
        self._low, self._scale = low, (high - low) / 2
        self._native = bool(np.all(low == -1) and np.all(high == 1))
        self._observe()  # binds the fields that observations read, before the first step

    def reset(self, seeds: Sequence[int] | np.ndarray) -> np.ndarray:
        """Start an episode in each environment from its own seed; return obs [N, O]."""
        seeds = np.asarray(seeds)
        if seeds.shape != (self.num_envs,):
            raise DataError(f"seeds {seeds.shape}: expected one for each of {self.num_envs} envs")
        self._batch.reset(stage=int(STAGE.mjSTAGE_NONE))
        self._batch.state[:] = self._starts(seeds)
        if self.domain.settle:
            self._batch.step(nstep=self.domain.settle, stage=int(STAGE.mjSTAGE_VEL))
            self._batch.time[:] = 0
        self._disable |= NO_ACTUATION
        self._batch.forward()
        self._disable[:] = self._enabled
        return self._observe()

    def step(self, action: np.ndarray) -> np.ndarray:
        """Apply actions [N, A] in [-1, 1] for one control step; return obs [N, O]."""
        action = np.asarray(action, np.float64)
        if action.shape != (self.num_envs, self.domain.action_dim):
            expected = (self.num_envs, self.domain.action_dim)
            raise DataError(f"action {action.shape}: expected {expected} for {self.domain.name}")
        # the arithmetic of dm_control's action_scale wrapper, if there is something to scale
        self._batch.ctrl[:] = action if self._native else self._low + self._scale * (action + 1)
        self._batch.step(nstep=self.domain.substeps, stage=int(STAGE.mjSTAGE_VEL))
        return self._observe()

    def physics(self) -> np.ndarray:
        """Return the states [N, P]: qpos, qvel, act."""
        return np.concatenate([self._batch.qpos, self._batch.qvel, self._batch.act], axis=1)

    def blown(self) -> np.ndarray:
        """Return [N]: whether MuJoCo has warned of (and reset) a diverged state this episode."""
        counts = self._batch.warning[..., 1]  # (last info, number); a reset clears them
        return counts.any(axis=1)

    def _starts(self, seeds: np.ndarray) -> np.ndarray:
        """Return each seed's state after the domain's `start`, from the default pose."""
        default, data = mujoco.MjData(self._model), mujoco.MjData(self._model)
        flags = self._model.opt.disableflags
        self._model.opt.disableflags = flags | NO_ACTUATION
        mujoco.mj_forward(self._model, default)
        self._model.opt.disableflags = flags
        rows = np.empty((len(seeds), self._batch.nstate))
        for row, seed in zip(rows, seeds, strict=True):
            mujoco.mj_copyData(data, self._model, default)
            self.domain.start(self._model, data, np.random.RandomState(seed))
            mujoco.mj_getState(self._model, data, row, INTEGRATION)
        return rows

    def _observe(self) -> np.ndarray:
        obs = np.ascontiguousarray(self.domain.observe(self._batch), np.float64)
        if obs.shape != (self.num_envs, self.domain.obs_dim):
            raise DataError(
                f"observe of {self.domain.name} gave {obs.shape}: "
                f"expected {(self.num_envs, self.domain.obs_dim)}"
            )
        return obs
