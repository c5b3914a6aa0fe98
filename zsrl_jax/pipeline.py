"""The whole method, stage by stage: data, encoder, tasks, policy -> an agent.

Each stage leaves saves in the run folder; the same command again goes on where the last one
stopped, and another config is refused there, unless by force.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from zsrl_jax import (
    checkpoint,
    feed,
    finished,
    hosts,
    lock,
    mesh,
    metrics,
    oracle,
    programs,
    provenance,
    resume,
    signals,
    td3,
)
from zsrl_jax.agent import Agent, AgentParams
from zsrl_jax.data import Dataset, fit_normalizer, to_device
from zsrl_jax.divergence import nan_seeds
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.encoding import (
    DATA_AXES,
    OWN,
    SHARED,
    encode,
    prompt_states,
    report_r2,
    see_behaviour,
)
from zsrl_jax.errors import DataError
from zsrl_jax.evaluation import evaluate
from zsrl_jax.loop import over_seeds, seed_keys, stage_keys
from zsrl_jax.oracle import Oracle, OracleData, OracleParams
from zsrl_jax.settings import OTHER, agree, check
from zsrl_jax.source import open_data
from zsrl_jax.stage import Run, Work, cell_name, is_own, learn
from zsrl_jax.tasks import SAMPLERS, behaviour_tasks, centre_of
from zsrl_jax.types import Encoder, LearnerState

NEAREST_OF = 100  # task vectors are kept for each of `infer.nearest`: a prompt gets a hundredth


def train(
    config: ConfigDict,
    dataset: Dataset | None = None,
    workdir: str | os.PathLike | None = None,
    quiet: bool = False,
    force: bool = False,
) -> Any:
    """Train an Agent (or an Oracle) from a config: every stage that is not on disk already.

    A run folder of other settings is refused; `force` goes on from its saves all the same.
    """
    check(config)
    agree(config)
    quiet = quiet or not hosts.is_first()
    dataset = hosts.in_turn(lambda: open_data(config, quiet)) if dataset is None else dataset
    workdir = Path(workdir or Path("runs") / cell_name(config))
    kind = _train_oracle if "oracle" in config else _train_own if is_own(config) else _train
    with running(config, dataset, workdir, quiet, force) as run:
        agent = kind(run, dataset)
        hosts.first(lambda: finished.save(agent, workdir))
        return agent


@contextlib.contextmanager
def running(
    config: ConfigDict,
    dataset: Dataset,
    workdir: Path,
    quiet: bool = False,
    force: bool = False,
) -> Iterator[Run]:
    """Hold a run's folder and log while the block runs; its timings are written at the end."""
    programs.keep()
    if config.domain not in (OTHER, dataset.domain) and dataset.domain is not None:
        raise DataError(f"the dataset is of {dataset.domain}: the config expects {config.domain}")
    if "oracle" in config:
        oracle.need_physics(dataset)
    keys, devices = seed_keys(config.seed, config.seeds), mesh.make(config)
    if not quiet and jax.device_count() > 1:
        print(mesh.describe(devices))
    log, mark = metrics.Log(workdir, silent=not hosts.is_first()), dataset.fingerprint()
    hosts.agree(mark, DataError("the processes read different data: all must see the same files"))
    run = Run(config, workdir, log, keys, {}, mark, quiet, {}, devices)
    with signals.caught(), hosts.leading(lock.held(workdir)):
        hosts.first(lambda: resume.check(run, force))
        hosts.first(lambda: provenance.write(workdir, config, dataset, mark))
        try:
            yield run
            run.take_over()
        finally:
            run.log.close()
        if hosts.is_first():
            checkpoint.write_text(workdir / "seconds.json", json.dumps(run.seconds))


def _train(run: Run, dataset: Dataset) -> Agent:
    config = run.config
    encoder, data, normalizer, hosted = encode(run, dataset)
    store = data.store
    tasks, pool = fit_tasks(run, encoder, data)
    data = data._replace(tasks=tasks)
    if hosted:
        pool, data = feed.to_accelerator((pool, data._replace(store=SHARED)))
    prompts = prompt_states(config, dataset)
    params = AgentParams(data.encoder, None, pool, normalizer, *prompts, centre_of(data.tasks))

    def finish(state: LearnerState) -> Agent:
        made = run.local(params._replace(actor=td3.acting(state)))
        return Agent(config, dataset.spec, dataset.domain, made, run.workdir)

    sampler = SAMPLERS[config.tasks.sampler]
    parts = config.policy, encoder.features, sampler
    policy = td3.make(config.policy, dataset.spec, config.encoder.dim, td3.make_sample(*parts))
    read: Any = data
    if hosted:
        halves = feed.halves(td3.make_draw(config.policy), td3.make_label(*parts))
        read = feed.Hosted(store, *halves, config.data.feed_updates, data, DATA_AXES)
    return finish(learn(run, "policy", policy, read, DATA_AXES, _evaluator(run, finish)))


def _train_own(run: Run, dataset: Dataset) -> Agent:
    """Train the encoder alone: the policy that it trains beside itself is the agent's."""
    config, spec = run.config, dataset.spec
    normalizer = fit_normalizer(dataset, config.data.normalize, config.data.clip)
    module, prompts = ENCODERS[config.encoder.name], prompt_states(config, dataset)
    own = module.own_policy(config.encoder, spec)

    def finish(state: LearnerState) -> Agent:
        frozen, actor = run.local(own.take(state.params))
        params = AgentParams(frozen, actor, None, normalizer, *prompts)
        return Agent(config, spec, dataset.domain, params, run.workdir)

    encoder = module.make(config.encoder, spec)
    _, drawn = feed.place(config.data, dataset, normalizer, encoder.sample, run.mesh)
    agent = finish(learn(run, "encoder", encoder, drawn, None, _evaluator(run, finish)))
    frozen, obs = agent.params.encoder, normalizer(prompts[0])
    report_r2(run, own, frozen, obs, prompts[1], dataset.domain)
    return agent


def _train_oracle(run: Run, dataset: Dataset) -> Oracle:
    """Train a policy on the true reward of each task, tasks x seeds in one program."""
    config, tasks = run.config, tuple(run.config.oracle.tasks)
    reward = jnp.asarray(oracle.rewards(config.domain, tasks, dataset))
    normalizer = fit_normalizer(dataset, config.data.normalize, config.data.clip)
    lanes = jnp.tile(jnp.arange(len(tasks)), config.seeds)
    axes = OracleData(store=SHARED, reward=SHARED, task=OWN)
    data = mesh.place(OracleData(to_device(dataset, normalizer), reward, lanes), axes, run.mesh)
    run = run._replace(keys=oracle.lane_keys(run.keys, config.domain, tasks))

    def finish(state: LearnerState) -> Oracle:
        by_seed = lambda x: x.reshape(config.seeds, len(tasks), *x.shape[1:])  # noqa: E731
        params = OracleParams(jax.tree.map(by_seed, run.local(td3.acting(state))), normalizer)
        return Oracle(config, dataset.spec, config.domain, params, run.workdir)

    policy = oracle.make_policy(config.policy, dataset.spec)
    return finish(learn(run, "policy", policy, data, axes, _evaluator(run, finish)))


def fit_tasks(run: Run, encoder: Encoder, data: td3.PolicyData) -> tuple[Any, Any]:
    """Fit the sampler and draw task vectors of the data to keep, or take both from disk."""
    section = run.config.tasks
    sampler = SAMPLERS[section.sampler]
    kept = max(section.num_subtrajectories, NEAREST_OF * run.config.infer.nearest)

    def one(key_pool, key_fit, data):
        behaviour = see_behaviour(encoder, data)
        fitted = sampler.fit(key_fit, behaviour, section)
        return fitted, behaviour_tasks(key_pool, behaviour, section, centre_of(fitted), kept)

    fit = run.over_seeds(one, (0, 0, DATA_AXES))
    args = stage_keys(run.keys, 11), stage_keys(run.keys, 12), data
    like = jax.eval_shape(over_seeds(one, (0, 0, DATA_AXES)), *args)
    work = Work(run, "tasks", like, unit="fit")
    with metrics.progress("tasks", 1, work.done, run.quiet, unit="fit") as bar:
        if not work.done:
            run.forget_after("tasks")
            work.state, work.done = jax.block_until_ready(fit(*args)), 1
            for place, quantity in nan_seeds(run.local(work.state)).items():
                run.fail(place, "tasks", 1, quantity, 0)
            if hasattr(work.state[0], "trace"):
                run.log.write(0, _fit_quality(*run.local(work.state)))
            work.save()
            bar.update()
    hosts.check()
    run.seconds["tasks"] = work.seconds()
    return work.state


def _fit_quality(tasks: Any, pool: Any) -> dict[str, Any]:
    """Tell how likely the mixture finds the vectors it was fitted to, and others of the data."""
    mixture = getattr(tasks, "other", tasks).mixture  # of mixed tasks, that of their part
    unseen = over_seeds(lambda mixture, z: mixture.score(z), (0, 0))(mixture, pool)
    return {
        "tasks/log_likelihood": tasks.trace.log_likelihood[:, -1],
        "tasks/unseen_log_likelihood": unseen,
    }


def _evaluator(run: Run, finish):
    """Return the callback that scores the policy every `evaluate.every` updates, or None."""
    section = run.config.evaluate
    if not section.every:
        return None

    def score(state, done):
        if done % section.every == 0:
            agent = finish(state)
            hosts.first(lambda: tell(agent, done))

    def tell(agent, done):
        scores = evaluate(agent, episodes=section.episodes, seed=section.seed, progress=False)
        values = {
            f"evaluate/{task}": scores.returns[:, i].mean(axis=-1)
            for i, task in enumerate(scores.tasks)
        }
        values["evaluate/mean"] = scores.returns.mean(axis=(1, 2))
        run.log.write(done, values)

    return score
