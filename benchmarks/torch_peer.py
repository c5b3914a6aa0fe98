"""The field's FB in PyTorch for some minutes on a collection, then scored in our simulator: a peer.

    python -m benchmarks.torch_peer --data=runs/data/cheetah/NAME/buffer --minutes=9 --seed=0

One stage, as the field has it: F, B and their own actor are trained together, z is uniform or B of
a state in halves, and a reward is answered by z = E[B r]. Sizes, rates and the standardised
observations are those of our laptop preset, so that what differs is the method, the framework and
how many updates fit into the minutes. The clock covers sampling and updates, as a run's own policy
and encoder seconds do; collecting and scoring are left out on both sides.
"""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from absl import flags

import zsrl_jax
from benchmarks.torch_updates import Data, forward_backward
from zsrl_jax.agent import Prompt
from zsrl_jax.commands import cli
from zsrl_jax.data import Normalizer, fit_normalizer, to_device
from zsrl_jax.envs import relabel
from zsrl_jax.errors import ConfigError
from zsrl_jax.prompts import moment_vector, on_sphere
from zsrl_jax.runs import provenance
from zsrl_jax.types import Spec

DATA = flags.DEFINE_string("data", None, "dataset: a folder of any format", required=True)
MINUTES = flags.DEFINE_float("minutes", 9.0, "wall-clock minutes of training", 0.0)
SEED = flags.DEFINE_integer("seed", 0, "of networks and batches")
START = flags.DEFINE_integer("start", 2026, "seed of the start states that scores are of")
EPISODES = flags.DEFINE_integer("episodes", 10, "per task", 1)
THREADS = flags.DEFINE_integer("threads", 1, "of PyTorch", 1)
OUT = flags.DEFINE_string("out", None, "file to which the result is appended, a line of JSON")


class Peer(NamedTuple):
    """PyTorch's networks with what `zsrl_jax.evaluate` asks of an agent."""

    domain: str
    spec: Spec
    normalizer: Normalizer
    backward: Any
    actor: Any
    states: np.ndarray  # of the data, on which a reward is computed
    physics: np.ndarray
    ridge: float | str  # of the regression whose R^2 is told; z needs none
    num_seeds: int = 1

    @property
    def z_dim(self) -> int:
        """Return the width of z."""
        return int(self._features(self.states[:1]).shape[1])

    @property
    def task_names(self) -> tuple[str, ...]:
        """Return the tasks of its domain."""
        return tuple(zsrl_jax.DOMAINS[self.domain].tasks)

    def prompt(self, task: str) -> Prompt:
        """Answer a task by z = E[B r], on the sphere."""
        phi = self._features(self.states)
        found = moment_vector(phi, relabel(self.domain, task, self.physics), self.ridge)
        z = on_sphere(found.z, phi.shape[1] ** 0.5)
        r2, ridge, cosine = (np.array([x]) for x in (found.r2, found.ridge, np.nan))
        return Prompt(z[None], r2, ridge, cosine)

    def act(self, obs: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return actions [1, n, A]."""
        with torch.inference_mode():
            action = self.actor(self._seen(obs), torch.as_tensor(np.ascontiguousarray(z)))
        return np.asarray(action)

    def _features(self, obs: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return np.asarray(self.backward(self._seen(obs)))

    def _seen(self, obs: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.array(self.normalizer(np.asarray(obs, np.float32))))


def train(update: Any, seconds: float) -> int:
    """Update until the time is up; return how often."""
    end, done = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        update()
        done += 1
    return done


def main(argv: list[str]) -> None:
    """Train, score, print, and write one line."""
    cli.refuse_arguments(argv)
    if OUT.value and not Path(OUT.value).absolute().parent.is_dir():
        raise ConfigError(f"the folder of --out={OUT.value} does not exist: make it first")
    dataset = zsrl_jax.load_dataset(DATA.value)
    if dataset.domain not in zsrl_jax.DOMAINS or dataset.physics is None:
        raise ConfigError(f"'{DATA.value}' has no physics of a known domain: it cannot be scored")
    torch.set_num_threads(THREADS.value)
    torch.manual_seed(SEED.value)
    config = zsrl_jax.config(dataset.domain, "fb", "goal_mix", "laptop")
    normalizer = fit_normalizer(dataset, config.data.normalize, config.data.clip)
    store = to_device(dataset, normalizer)
    tensors = (torch.as_tensor(np.array(x)) for x in (store.obs, store.action, store.discount))
    made = forward_backward(config.encoder, Data(*tensors))
    updates = train(made.update, 60 * MINUTES.value)
    place = dataset.reached(config.infer.num_states, config.infer.seed)
    peer = Peer(
        dataset.domain, dataset.spec, normalizer, made.backward, made.actor,
        np.asarray(dataset.obs[place], np.float32), dataset.physics[place], config.infer.ridge,
    )  # fmt: skip
    scores = zsrl_jax.evaluate(peer, episodes=EPISODES.value, seed=START.value)  # type: ignore[arg-type]
    print(scores)
    print(f"PyTorch FB: {updates} updates in {MINUTES.value:g} minutes, seed {SEED.value}")
    if OUT.value:
        line = {
            "peer": "PyTorch FB, its own actor", "minutes": MINUTES.value, "updates": updates,
            "threads": THREADS.value, "seed": SEED.value, "start": START.value,
            "tasks": list(scores.tasks), "returns": scores.returns.tolist(),
            "data": dataset.fingerprint(), "scale": "laptop",
            "config": config.encoder.to_dict(),
            "versions": provenance.versions() | {"torch": torch.__version__},
        }  # fmt: skip
        with Path(OUT.value).open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    cli.run(main)
