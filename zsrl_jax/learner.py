"""From losses to an update, for every encoder and for the policy.

params[part] <- Adam(grad_{params[part]} loss)     for each step, in order
target       <- target + tau (params - target)     for the parts that have a target
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from zsrl_jax.seeds import map_seeds
from zsrl_jax.types import LearnerState, Metrics

ALL = "all"  # the part of a step in which all parameters descend one loss together


class Step(NamedTuple):
    """One gradient step of an update: which part of the parameters descends which loss."""

    part: str  # a name, or ALL
    loss: Callable[..., tuple[Any, Metrics]]  # (part, params, target_params, batch, key)
    learning_rate: Any  # a number, or an optax schedule
    every: int = 1  # take the step at updates 0, every, 2 every, ...


class Learner(NamedTuple):
    """init(key) -> state and update(state, batch, key, step) -> (state, metrics)."""

    init: Callable
    update: Callable


def soft_update(target: Any, online: Any, rate: float) -> Any:
    """Move target parameters towards the online ones."""
    return jax.tree.map(lambda old, new: old + rate * (new - old), target, online)


def make(init_params: Callable, steps: Sequence[Step], targets: Mapping[str, float]) -> Learner:
    """Bind losses, optimisers and target networks (part -> rate) into init and update."""

    @functools.cache
    def optimizers() -> dict[str, Any]:
        import optax  # here, so that an agent that only acts needs no optimiser

        return {step.part: optax.adam(step.learning_rate) for step in steps}

    def init(key):
        params = init_params(key)
        copies = {part: jax.tree.map(jnp.copy, params[part]) for part in targets}
        opt_state = {part: opt.init(_pick(params, part)) for part, opt in optimizers().items()}
        return LearnerState(params, copies, opt_state)

    def take(step, state, batch, key):
        part = _pick(state.params, step.part)
        grad, metrics = jax.grad(step.loss, has_aux=True)(
            part, state.params, state.target_params, batch, key
        )
        opt = optimizers()[step.part]
        delta, opt_state = opt.update(grad, state.opt_state[step.part])
        part = jax.tree.map(lambda old, change: old + change, part, delta)
        state = state._replace(
            params=part if step.part == ALL else state.params | {step.part: part},
            opt_state=state.opt_state | {step.part: opt_state},
        )
        return state, metrics

    def update(state, batch, key, step):
        metrics: Metrics = {}
        for spec, key_step in zip(steps, jax.random.split(key, len(steps)), strict=True):
            if spec.every == 1:
                state, new = take(spec, state, batch, key_step)
            else:
                state, new = _every(spec, take, step, state, batch, key_step)
            metrics |= new
        target = {
            part: soft_update(state.target_params[part], state.params[part], rate)
            for part, rate in targets.items()
        }
        return state._replace(target_params=target), metrics

    return Learner(init, update)


def side_by_side(one: Learner, number: int) -> Learner:
    """Make `number` learners into one: learner i takes the i-th part of every batch.

    Axis 0 of the state is the learner; metrics are means over learners.
    """

    def init(key):
        return map_seeds(one.init, (0,))(jax.random.split(key, number))

    def update(state, batch, key, step):
        def learn(state, part, key):
            return one.update(state, part, key, step)

        parts = jax.tree.map(lambda x: x.reshape(number, x.shape[0] // number, *x.shape[1:]), batch)
        keys = jax.random.split(key, number)
        state, metrics = map_seeds(learn, (0, 0, 0))(state, parts, keys)
        return state, jax.tree.map(lambda value: jnp.mean(value, axis=0), metrics)

    return Learner(init, update)


def _pick(params, part):
    return params if part == ALL else params[part]


def _every(spec, take, step, state, batch, key):
    """Take a step at every n-th update; `step` is not batched over seeds, so one branch runs.

    Metrics are multiplied by n where the step is taken and are 0 elsewhere, so that their mean
    over updates is right.
    """

    def taken(state):
        state, metrics = take(spec, state, batch, key)
        return state, jax.tree.map(lambda value: value * spec.every, metrics)

    def skipped(state):
        shapes = jax.eval_shape(taken, state)[1]
        return state, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    return jax.lax.cond(step % spec.every == 0, taken, skipped, state)
