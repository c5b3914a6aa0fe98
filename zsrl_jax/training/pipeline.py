"""The whole method, stage by stage: data, encoder, tasks, policy -> an agent and its scores.

Each stage writes saves into the run folder. The same call again goes on where the last one stopped;
another config is refused, unless forced. The command and `zsrl_jax.train` both call `complete`, so
both leave the same folder.
"""

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from zsrl_jax import acting, oracle, td3
from zsrl_jax.agent import Agent, AgentParams
from zsrl_jax.data import Dataset, fit_normalizer, to_device
from zsrl_jax.data.summary import best_pieces, task_means
from zsrl_jax.devices import compile_cache, mesh, processes
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.evaluation import Scores, evaluate
from zsrl_jax.oracle import Oracle, OracleParams
from zsrl_jax.runs import agent_files, provenance, results
from zsrl_jax.settings.names import is_own
from zsrl_jax.tasks import SAMPLERS, centre_of
from zsrl_jax.training import data_source, memory, streaming
from zsrl_jax.training.blueprint import shape_of
from zsrl_jax.training.encoded import (
    DATA_AXES,
    OWN,
    SHARED,
    encode,
    prompt_states,
    report_r2,
    states_before,
)
from zsrl_jax.training.loop import Stream, stream_keys
from zsrl_jax.training.run import Run, running
from zsrl_jax.training.scoring import make_scorer
from zsrl_jax.training.stage import learn
from zsrl_jax.training.task_fit import fit_tasks, task_sizes
from zsrl_jax.types import LearnerState


class Finished(NamedTuple):
    """What a run leaves: its agent, its scores, and all of `results.json`."""

    agent: Agent | Oracle
    scores: Scores | None  # None without a simulator, and in processes that do not write
    results: dict[str, Any]
    file: Path


def train(
    config: ConfigDict,
    dataset: Dataset | str | os.PathLike[str] | None = None,
    workdir: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    force: bool = False,
) -> Agent | Oracle:
    """Train an Agent (or an Oracle) from a config: every stage that is not on disk already.

    `dataset` is a Dataset or the path of one; without it, the data that the config names.
    A run folder with other settings is refused; `force` goes on from its saves anyway.
    """
    data_source.refuse_unusable(config)
    return complete(config, dataset, workdir, quiet=quiet, force=force).agent


def complete(
    config: ConfigDict,
    dataset: Dataset | str | os.PathLike[str] | None = None,
    workdir: str | os.PathLike[str] | None = None,
    *,
    command: list[str] | None = None,
    quiet: bool = False,
    force: bool = False,
    notes: dict[str, Any] | None = None,
) -> Finished:
    """Lock the folder, train every stage that is not done, score, and write the results.

    The config was checked before (`data_source.refuse_unusable`), by whoever asked for the run.
    """
    config, dataset = data_source.given(config, dataset)
    workdir = Path(workdir or data_source.default_folder(config, dataset))
    told: dict[str, Any] = {}
    if config.evaluate.every:
        streaming.host()  # scores the policy: refused here if JAX does not see it
    known = data_source.is_known(config, dataset)
    if known:
        _refuse_if_too_large(config, dataset or config)
    with running(config, dataset, workdir, quiet, force) as (run, data):
        if not known:
            _refuse_if_too_large(config, data)
        agent = _kind(config)(run, data)

        def conclude() -> None:
            agent_files.save(agent, workdir)
            told["scores"], told["results"] = _score(agent, run, data, command or [])
            told["results"] |= notes or {}
            results.write(workdir, told["results"])

        processes.first(conclude)
    file = workdir / results.FILE
    return Finished(agent, told.get("scores"), told.get("results", {}), file)


def _refuse_if_too_large(config: ConfigDict, source: Dataset | ConfigDict) -> None:
    """Refuse in all processes what does not fit into the device of the first."""
    limit, num = memory.device_limit(), jax.device_count()
    if limit is not None:
        compile_cache.keep()
        shape = shape_of(source)
        processes.first(lambda: memory.refuse_if_too_large(config, shape, limit, num))


def _score(
    agent: Agent | Oracle, run: Run, dataset: Dataset, command: list[str]
) -> tuple[Scores | None, dict[str, Any]]:
    """Score an agent if there is a simulator; return the scores and the results to write."""
    section, start, scores = run.config.evaluate, time.monotonic(), None
    if agent.domain is not None:
        scores = evaluate(
            agent, episodes=section.episodes, seed=section.seed, progress=not run.quiet
        )
        scores = _beside_data(scores, dataset)
    if scores and run.failed:
        scores = scores.without({f.seed - run.config.seed for f in run.failed.values()})
    seconds = run.seconds | {"evaluate": time.monotonic() - start}
    origin = provenance.describe(run.config, dataset, run.fingerprint) | {"command": command}
    failed = run.failed.values()
    return scores, results.describe_run(run.workdir, scores, origin, failed, seconds)


def _beside_data(scores: Scores, dataset: Dataset) -> Scores:
    """Return the scores with what the data itself earns in each task."""
    means = task_means(dataset)
    if not means:
        return scores
    data_mean = 1000 * np.array([means[task] for task in scores.tasks])
    return dataclasses.replace(
        scores, data_mean=data_mean, data_best=best_pieces(dataset, scores.tasks)
    )


def _kind(config: ConfigDict) -> Callable[[Run, Dataset], Agent | Oracle]:
    if "oracle" in config:
        return _train_oracle
    return _train_own if is_own(config) else _train


def _train(run: Run, dataset: Dataset) -> Agent:
    config = run.config
    encoder, data, normalizer, hosted = encode(run, dataset)
    store = data.store
    tasks, pool = fit_tasks(run, encoder, data)
    data = data._replace(tasks=tasks)
    sizes = task_sizes(run, encoder, data)
    if hosted:
        pool, sizes, data = streaming.to_accelerator((pool, sizes, data._replace(store=SHARED)))
    prompts, centre = prompt_states(config, dataset), centre_of(data.tasks)
    before = states_before(config, dataset, encoder)
    params = AgentParams(data.encoder, None, pool, normalizer, *prompts, centre, sizes, before)

    def finish(state: LearnerState) -> Agent:
        made = run.local(params._replace(actor=acting.params_of(config.policy, state)))
        return Agent(config, dataset.spec, dataset.domain, made, run.workdir)

    sampler = SAMPLERS[config.tasks.sampler]
    parts = config.policy, encoder.features, sampler, encoder.of_transitions
    policy = td3.make(config.policy, dataset.spec, config.encoder.dim, td3.make_sample(*parts))
    feed: streaming.Feed = streaming.Resident(data, DATA_AXES)
    if hosted:
        halves = streaming.policy_halves(td3.make_draw(config.policy), td3.make_label(*parts))
        feed = streaming.Hosted(store, *halves, config.data.feed_updates, data, DATA_AXES)
    return finish(learn(run, "policy", policy, feed, make_scorer(run, finish)))


def _train_own(run: Run, dataset: Dataset) -> Agent:
    """Train only the encoder: the policy that it trains with itself is the agent's."""
    config, spec = run.config, dataset.spec
    normalizer = fit_normalizer(dataset, config.data.normalize, config.data.clip)
    module, (obs, physics) = ENCODERS[config.encoder.name], prompt_states(config, dataset)
    own = module.own_policy(config.encoder, spec)

    def finish(state: LearnerState) -> Agent:
        frozen, actor = run.local(own.take(state.params))
        params = AgentParams(frozen, actor, None, normalizer, obs, physics)
        return Agent(config, spec, dataset.domain, params, run.workdir)

    encoder = module.make(config.encoder, spec)
    _, feed = streaming.place(config.data, dataset, normalizer, encoder.sample, run.mesh)
    agent = finish(learn(run, "encoder", encoder, feed, make_scorer(run, finish)))
    report_r2(run, own, agent.params.encoder, [normalizer(obs)], physics, dataset.domain)
    return agent


def _train_oracle(run: Run, dataset: Dataset) -> Oracle:
    """Train a policy on the true reward of each task, tasks x seeds in one program."""
    config, tasks = run.config, tuple(run.config.oracle.tasks)
    reward = jnp.asarray(oracle.rewards(config.domain, tasks, dataset))
    if config.oracle.get("center", False):
        reward = reward - oracle.mean_reward(reward, dataset.length)
    normalizer = fit_normalizer(dataset, config.data.normalize, config.data.clip)
    task = jnp.tile(jnp.arange(len(tasks)), config.seeds)
    axes = oracle.OracleData(store=SHARED, reward=SHARED, task=OWN)
    data = oracle.OracleData(to_device(dataset, normalizer), reward, task)
    places = oracle.task_places(config.domain, tasks)
    run = run._replace(
        keys=jnp.stack(
            [stream_keys(run.keys, Stream.ORACLE_TASK + place) for place in places], axis=1
        ).reshape(-1)
    )

    def finish(state: LearnerState) -> Oracle:
        by_seed = lambda x: x.reshape(config.seeds, len(tasks), *x.shape[1:])  # noqa: E731
        trained = run.local(acting.params_of(config.policy, state))
        params = OracleParams(jax.tree.map(by_seed, trained), normalizer)
        return Oracle(config, dataset.spec, config.domain, params, run.workdir)

    policy = oracle.make_policy(config.policy, dataset.spec)
    feed = streaming.Resident(mesh.place(data, axes, run.mesh), axes)
    return finish(learn(run, "policy", policy, feed, make_scorer(run, finish)))
