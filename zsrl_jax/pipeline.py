"""The whole method, stage by stage: data, encoder, tasks, policy -> an agent.

Each stage leaves a checkpoint in the run folder; the same command again goes on where the last
one stopped, and another config starts the stages that it changes anew.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from zsrl_jax import agent as agents
from zsrl_jax import checkpoint, metrics, td3
from zsrl_jax.agent import Agent, AgentParams
from zsrl_jax.data import Dataset, fit_normalizer, to_device
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.errors import ConfigError, TaskError, unknown
from zsrl_jax.evaluation import evaluate
from zsrl_jax.loop import over_seeds, seed_keys, stage_keys
from zsrl_jax.source import open_data
from zsrl_jax.stage import Run, learn
from zsrl_jax.tasks import SAMPLERS, Behaviour, behaviour_tasks
from zsrl_jax.types import Encoder, LearnerState, Store

_OWN: Any = 0
_SHARED: Any = None
DATA_AXES = td3.PolicyData(store=_SHARED, phi=_OWN, encoder=_OWN, mean=_OWN, tasks=_OWN)


def train(
    config: ConfigDict,
    dataset: Dataset | None = None,
    workdir: str | os.PathLike | None = None,
    quiet: bool = False,
) -> Agent:
    """Train an agent from a config: every stage that is not on disk already."""
    check(config)
    workdir = Path(workdir or Path("runs") / config.cell)
    seconds: dict[str, float] = {}
    start = time.monotonic()
    dataset = open_data(config, quiet) if dataset is None else dataset
    seconds["data"] = time.monotonic() - start
    run = Run(
        config, workdir, metrics.Log(workdir), seed_keys(config.seed, config.seeds), seconds,
        dataset.fingerprint(), quiet,
    )  # fmt: skip
    try:
        return _train(run, dataset)
    finally:
        run.log.close()
        _note(workdir / "seconds.json", seconds)


def check(config: ConfigDict) -> None:
    """Refuse a config that names what does not exist."""
    if config.encoder.name not in ENCODERS:
        raise TaskError(unknown("encoder", config.encoder.name, ENCODERS))
    if config.tasks.sampler not in SAMPLERS:
        raise TaskError(unknown("sampler", config.tasks.sampler, SAMPLERS))
    for field in ("seeds", "log_every", "checkpoint_every"):
        if config[field] < 1:
            raise ConfigError(f"config.{field} is {config[field]}: expected at least 1")


def _train(run: Run, dataset: Dataset) -> Agent:
    config = run.config
    normalizer = fit_normalizer(dataset, config.data.normalize, config.data.clip)
    store = to_device(dataset, normalizer)
    encoder = ENCODERS[config.encoder.name].make(config.encoder, dataset.spec)
    state = learn(run, "encoder", encoder, store)
    start = time.monotonic()
    key_freeze, key_pool, key_fit = (stage_keys(run.keys, 10 + i) for i in range(3))
    frozen = over_seeds(encoder.freeze, (0, 0, None))(key_freeze, state.params, store)
    data = _policy_data(run, encoder, frozen, store, key_fit)
    pool = _fit(run, encoder, data, key_pool, behaviour_tasks)
    run.seconds["tasks"] = time.monotonic() - start
    params = AgentParams(frozen, None, pool, normalizer, *_prompt_states(config, dataset))

    def finish(state: LearnerState) -> Agent:
        made = params._replace(actor=td3.acting(state))
        return Agent(config, dataset.spec, dataset.domain, made, run.workdir)

    sampler = SAMPLERS[config.tasks.sampler]
    sample = td3.make_sample(config.policy, encoder.features, sampler)
    policy = td3.make(config.policy, dataset.spec, config.encoder.dim, sample)
    state = learn(run, "policy", policy, data, DATA_AXES, _evaluator(run, finish))
    agent = finish(state)
    agents.save(agent, run.workdir)
    return agent


def _behaviour(encoder: Encoder, data: td3.PolicyData) -> Behaviour:
    """See the data through the encoder: by table where there is one, else on the fly."""

    def phi(episode):
        if data.phi is not None:
            return data.phi[episode]
        return encoder.features(data.encoder, data.store.obs[episode])

    return Behaviour(phi, data.store.length, data.mean.shape[0])


def _policy_data(run: Run, encoder: Encoder, frozen: Any, store: Store, key_fit) -> td3.PolicyData:
    """Compute features, their mean and the task distribution, for every seed."""
    config = run.config
    states = int(store.obs.shape[0] * store.obs.shape[1])
    size = 4 * states * config.encoder.dim * config.seeds / 2**30
    phi = None
    if size <= config.policy.feature_gib:

        def table(params, obs):
            return jax.lax.map(lambda episode: encoder.features(params, episode), obs)

        phi = over_seeds(table, (0, None))(frozen, store.obs)

    def mean(params, store):
        def add(total, episode):
            obs, length = episode
            reached = (jnp.arange(1, obs.shape[0]) <= length)[None].astype(jnp.float32)
            return total + (reached @ encoder.features(params, obs[1:]))[0], None

        zero = jnp.zeros(config.encoder.dim)
        total, _ = jax.lax.scan(add, zero, (store.obs, store.length))
        return total / jnp.sum(store.length)

    centre = over_seeds(mean, (0, None))(frozen, store)
    if not config.policy.center_reward:
        centre = jnp.zeros_like(centre)
    data = td3.PolicyData(store, phi, frozen, centre, None)
    tasks = _fit(run, encoder, data, key_fit, SAMPLERS[config.tasks.sampler].fit)
    return data._replace(tasks=tasks)


def _fit(run: Run, encoder: Encoder, data: td3.PolicyData, keys, fit) -> Any:
    """Run a function of (key, behaviour, config) for every seed."""
    section = run.config.tasks

    def one(key, data):
        return fit(key, _behaviour(encoder, data), section)

    return over_seeds(one, (0, DATA_AXES))(keys, data._replace(tasks=None))


def _prompt_states(config: ConfigDict, dataset: Dataset) -> tuple[Any, np.ndarray | None]:
    """Draw the dataset states that rewards will be labelled on."""
    place = dataset.reached(config.infer.num_states, config.infer.seed)
    physics = None if dataset.physics is None else dataset.physics[place]
    return jnp.asarray(dataset.obs[place], jnp.float32), physics


def _evaluator(run: Run, finish):
    """Return the callback that scores the policy every `evaluate.every` updates, or None."""
    section = run.config.evaluate
    if not section.every:
        return None

    def score(state, done):
        if done % section.every == 0:
            start = time.monotonic()
            scores = evaluate(
                finish(state), episodes=section.episodes, seed=section.seed, progress=False
            )
            values = {
                f"evaluate/{task}": scores.returns[:, i].mean(axis=-1)
                for i, task in enumerate(scores.tasks)
            }
            values["evaluate/mean"] = scores.returns.mean(axis=(1, 2))
            run.log.write(done, values)
            spent = run.seconds.get("evaluate_during", 0.0)
            run.seconds["evaluate_during"] = spent + time.monotonic() - start

    return score


def _note(file: Path, seconds: dict[str, float]) -> None:
    """Keep the longest time of each stage: a stage that was only restored took none."""
    past = json.loads(file.read_text()) if file.exists() else {}
    merged = {**past, **{k: round(max(v, past.get(k, 0.0)), 1) for k, v in seconds.items()}}
    checkpoint.write_text(file, json.dumps(merged))
