"""A stage with a learner of three numbers, for tests of what happens to a run."""

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from zsrl_jax.seeds import seed_keys
from zsrl_jax.training import metrics, stage
from zsrl_jax.training.streaming import Resident
from zsrl_jax.types import LearnerState, Policy

NEVER = 10**6


def make_learner(quantity="loss"):
    """Make a learner whose `quantity` is not finite at the update that its data names."""

    def init(key):
        w = jax.random.normal(key, (3,))
        return LearnerState({"w": w}, {"w": w + 0.0}, {"w": jnp.zeros(3)})

    def sample(key, data):
        return jax.random.normal(key, (3,)), data

    def update(state, batch, key, step):
        noise, poison = batch
        bad = jnp.where(step == poison, jnp.inf, 0.0)
        grad = noise + (bad if quantity == "gradient" else 0.0)
        w = 0.9 * state.params["w"] + 0.1 * noise + (bad if quantity == "parameter" else 0.0)
        loss = jnp.sum(w**2) + (bad if quantity == "loss" else 0.0)
        moment = state.opt_state["w"] + grad
        return LearnerState({"w": w}, {"w": state.target_params["w"]}, {"w": moment}), {
            "policy/critic_loss": loss
        }

    return Policy(init, sample, update, act=lambda params, obs, z: obs)


def make_run(workdir, updates=60, seeds=(0, 1, 2), save_every=20):
    config = ConfigDict({
        "domain": "cheetah", "seed": 0, "seeds": len(seeds), "log_every": 10,
        "checkpoint_every": save_every, "data": {"normalize": "none", "clip": 1.0},
        "encoder": {}, "tasks": {}, "policy": {"updates": updates},
    })  # fmt: skip
    keys = jnp.stack([seed_keys(seed, 1)[0] for seed in seeds])
    return stage.Run(config, workdir, metrics.Log(workdir), keys, {}, "abc", True, {})


def learn(run, poison=(NEVER, NEVER, NEVER), quantity="loss", on_chunk=None):
    feed = Resident(jnp.asarray(poison), 0)
    on_chunk = stage.OnChunk(on_chunk) if on_chunk else None
    try:
        return stage.learn(run, "policy", make_learner(quantity), feed, on_chunk)
    finally:
        run.log.close()


def equal(one, other, places=slice(None)):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a)[places], np.asarray(b)[places]) for a, b in pairs)


def lines(workdir):
    return [{k: v for k, v in x.items() if k != "seconds"} for x in metrics.read(workdir)]
