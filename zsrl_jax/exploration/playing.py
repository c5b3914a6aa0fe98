"""Play the shipped explorers: episodes in minutes, the same on every machine.

    a = round_1024(clip(pi_j(s) + noise N(0, 1), -1, 1)),     episode i is played by j = i mod S

A share of the steps are pushes, as in training (`pushes`).

Actions are computed in double precision and rounded to a grid of 1/1024: a last digit that another
processor rounds differently then changes no action, and so no episode. Episode i depends on the
seed and on i alone, so a collection can grow, and its first episodes are of all actors.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from ml_collections import ConfigDict

from zsrl_jax import networks
from zsrl_jax.data.formats import exorl
from zsrl_jax.devices import signals
from zsrl_jax.envs import Simulator
from zsrl_jax.envs.domain import Domain, often_standing
from zsrl_jax.exploration.pushes import draw_pushes, pushed
from zsrl_jax.exploration.rnd import CLIP
from zsrl_jax.exploration.shipped import Explorers
from zsrl_jax.files.atomic import sync

GRID = 1024  # actions are multiples of 1 / GRID
TOGETHER = 64  # episodes played at once, about
EARLY = 10  # steps after which rounding has not grown yet


class Played(NamedTuple):
    """Whole episodes, one per row."""

    obs: Float[np.ndarray, "n step obs"]
    action: Float[np.ndarray, "n step action"]
    physics: Float[np.ndarray, "n step physics"]


class Player:
    """Plays the episodes of one collection, a block of them at a time.

    Blocks are no larger than the `episodes` that are wanted need. Of the explorer's recipe it uses
    `noise`, `held` where the domain is pushed, and `standing`, the share of episodes that start on
    the feet, where the domain has such a start.
    """

    def __init__(
        self,
        domain: Domain,
        explorers: Explorers,
        seed: int,
        config: ConfigDict,
        episodes: int = TOGETHER,
    ):
        self.domain, self.seed, self.config = domain, seed, config
        rounds = min(TOGETHER // explorers.number, -(-episodes // explorers.number))
        self.size = explorers.number * max(1, rounds)  # episodes per block
        self._act = make_act(domain, explorers)
        self._simulator = Simulator(often_standing(domain, config.standing), self.size)

    def block(self, first: int) -> Played:
        """Play the episodes first, first + 1, ... of a block."""
        numbers, steps = range(first, first + self.size), self.domain.episode_length
        obs = [self._simulator.reset([self.seed * 1_000_003 + i for i in numbers])]
        physics, action = [self._simulator.physics()], list[np.ndarray]()
        noise = np.stack([self._noise(i) for i in numbers])
        share = self.config.held if self.domain.pushed else 0.0
        push = draw_pushes(self.seed, numbers, (steps, self.domain.action_dim), share)
        for step in range(steps):
            if step % 10 == 0:
                signals.check()
            chosen = np.clip(self._act(obs[-1]) + noise[:, step], -1.0, 1.0)
            action.append(np.round(pushed(push[:, step], chosen) * GRID) / GRID)
            obs.append(self._simulator.step(action[-1]))
            physics.append(self._simulator.physics())
        return Played(*(np.stack(rows, axis=1) for rows in (obs, action, physics)))

    def _noise(self, episode: int) -> np.ndarray:
        """Draw an episode's noise [T, A]."""
        shape = self.domain.episode_length, self.domain.action_dim
        draw = np.random.default_rng([self.seed, episode])
        return np.asarray(self.config.noise * draw.standard_normal(shape))

    def write(self, folder: Path, done: int, episodes: int) -> int:
        """Play the block that holds episode `done`, write what is missing; return the new count."""
        first = done - done % self.size
        played, last = self.block(first), min(first + self.size, episodes)
        for i in range(done, last):
            exorl.write_episode(folder / "buffer", i, *(rows[i - first] for rows in played))
        sync(folder / "buffer")
        return last


def fingerprint(
    domain: Domain, explorers: Explorers, config: ConfigDict, episodes: int = 64
) -> dict[str, Any]:
    """Tell the first episodes of seed 0 from others: exactly, and by figures that rounding leaves.

    `sha256` is of all actions and states. `early` is the mean state after some steps; `mean` and
    `deviation` are of all observations: another processor may round, and then these still agree.
    """
    player, blocks = Player(domain, explorers, 0, config, episodes), list[Played]()
    while len(blocks) * player.size < episodes:
        blocks.append(player.block(len(blocks) * player.size))
    obs, action, physics = (np.concatenate(x)[:episodes] for x in zip(*blocks, strict=True))
    flat = obs.reshape(-1, obs.shape[-1]).astype(np.float64)
    content = np.concatenate([action.ravel(), physics.ravel()]).astype(np.float32)
    return {
        "episodes": episodes,
        "sha256": hashlib.sha256(content.tobytes()).hexdigest(),
        "early": [round(float(x), 6) for x in physics[:, EARLY].mean(axis=0)],
        "mean": [round(float(x), 4) for x in flat.mean(axis=0)],
        "deviation": [round(float(x), 4) for x in flat.std(axis=0)],
    }


def make_act(domain: Domain, explorers: Explorers) -> Callable[[np.ndarray], np.ndarray]:
    """Make act(obs [block, O]) -> actions [block, A] in double precision, without noise.

    Row i is played by actor i mod S.
    """
    number = explorers.number
    width = explorers.actor["Dense_1"]["bias"].shape[-1]
    actor = networks.actor(domain.obs_dim, 0, domain.action_dim, width)

    def one(params, mean, deviation, obs):
        scaled = jnp.clip((obs - mean[None]) / deviation[None], -CLIP, CLIP)
        return actor.apply(params, scaled, jnp.zeros((obs.shape[0], 0), obs.dtype))

    program = jax.jit(jax.vmap(one, (0, 0, 0, 1), out_axes=1))

    def act(obs: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            chosen = program(*explorers, obs.reshape(-1, number, obs.shape[-1]))
            return np.asarray(chosen).reshape(len(obs), -1)

    return act
