"""Every encoder and the policy as a learner, small enough to compile in seconds."""

import chex
import jax
import jax.numpy as jnp

from zsrl_jax import td3
from zsrl_jax.data import fit_normalizer, to_device
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.settings import fields
from zsrl_jax.tasks import SAMPLERS, Uniform

LEARNERS = [*ENCODERS, "policy"]
POLICY = {"width": 8, "num_tasks": 4, "per_task": 3}  # as many tasks as a mesh has rows


def build(name, dataset):
    """Return a learner and its data, small enough to compile in seconds."""
    store = to_device(dataset, fit_normalizer(dataset, "none"))
    config = fields.get_config("cheetah", "fb", "uniform")
    if name == "policy":
        section = config.policy
        section.update(POLICY)
        features = lambda w, obs: obs @ w  # noqa: E731
        sample = td3.make_sample(section, features, SAMPLERS["uniform"])
        tasks = Uniform(jnp.asarray(1.0), jnp.zeros(3))
        data = td3.PolicyData(store, None, jnp.ones((4, 3)), jnp.zeros(3), tasks)
        return compiled(td3.make(section, dataset.spec, 3, sample)), data
    section = fields.get_config("cheetah", name, "uniform").encoder
    section.update({"dim": 3, "hidden": (8,), "batch": 12})
    if "width" in section:
        section.width = 8
    return compiled(ENCODERS[name].make(section, dataset.spec)), store


def compiled(learner):
    """Return the learner with its first state and its batches in one program each: sooner ready."""
    return learner._replace(init=jax.jit(learner.init), sample=jax.jit(learner.sample))


def equal(one, other):
    """Tell whether two trees are equal to the last bit."""
    try:
        chex.assert_trees_all_equal(one, other)
    except AssertionError:
        return False
    return True
