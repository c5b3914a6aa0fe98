"""The whole method, stage by stage: data, encoder, tasks, policy -> an agent.

Each stage leaves a checkpoint in the run folder with a fingerprint of everything it depends on;
the same command again takes up where the last one stopped, and another config starts that stage
and those behind it anew.
"""

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from zsrl_jax import agent as agents
from zsrl_jax import checkpoint, metrics, td3
from zsrl_jax.agent import Agent, AgentParams
from zsrl_jax.collection import collect
from zsrl_jax.data import Dataset, exorl, fit_normalizer, load_dataset, to_device
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.errors import ConfigError, DataError, TaskError, unknown
from zsrl_jax.evaluation import evaluate
from zsrl_jax.loop import make_loop, over_seeds, seed_keys, stage_keys
from zsrl_jax.tasks import SAMPLERS, Behaviour, behaviour_tasks
from zsrl_jax.types import Encoder, LearnerState, Store

STAGES = ("data", "encoder", "tasks", "policy")
_OWN: Any = 0
_SHARED: Any = None
DATA_AXES = td3.PolicyData(store=_SHARED, phi=_OWN, encoder=_OWN, mean=_OWN, tasks=_OWN)
SHOWN = {
    "encoder": ("encoder/loss", "encoder/effective_rank"),
    "policy": ("policy/critic_loss", "policy/q", "policy/saturated"),
}


class Run(NamedTuple):
    """What every stage needs of a run."""

    config: ConfigDict
    workdir: Path
    log: metrics.Log
    keys: jax.Array
    seconds: dict[str, float]
    fingerprint: str  # of the data

    def identity(self, stage: str) -> str:
        """Return a checksum of all that decides a stage's result."""
        sections = STAGES[1 : STAGES.index(stage) + 1]
        facts = {name: self.config[name].to_dict() for name in sections}
        facts |= {"seeds": [self.config.seed, self.config.seeds], "data": self.fingerprint}
        facts["normalize"] = self.config.data.normalize
        text = json.dumps(facts, sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def open_data(config: ConfigDict, quiet: bool = False) -> Dataset:
    """Return the dataset that a config asks for: an ExORL folder, or a cached collection."""
    section = config.data
    folder = _given_folder(config)
    if folder is not None:
        dataset = load_dataset(folder, max_episodes=section.max_episodes or None)
        if dataset.domain != config.domain:
            raise DataError(
                f"'{folder}' holds {dataset.domain or 'an unknown domain'}: "
                f"expected {config.domain}"
            )
        return dataset
    recipe = json.dumps(section.collect.to_dict(), sort_keys=True)
    mark = hashlib.blake2b(recipe.encode(), digest_size=4).hexdigest()
    name = f"rnd_{section.episodes}_seed{section.seed}_{mark}"
    folder = Path(section.cache) / config.domain / name
    return collect(
        config.domain, section.episodes, section.seed, folder, section.collect, not quiet
    )


def _given_folder(config: ConfigDict) -> Path | None:
    """Return the folder of episodes that the user named, or None where we are to collect."""
    section, common = config.data, os.environ.get("ZSRL_DATA", "")
    if section.source not in ("auto", "exorl", "collect"):
        raise ConfigError(unknown("data.source", section.source, ["auto", "exorl", "collect"]))
    if section.source == "collect":
        return None
    if section.path:
        return exorl.find_buffer(section.path, config.domain, section.algo)
    if section.source == "exorl" and not common:
        raise DataError("data.source is exorl, but neither data.path nor ZSRL_DATA names a folder")
    try:
        return exorl.find_buffer(common, config.domain, section.algo) if common else None
    except DataError:
        if section.source == "exorl":
            raise
        print(f"data: ZSRL_DATA={common} has no {config.domain} episodes, so they are collected")
        return None


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
        dataset.fingerprint(),
    )  # fmt: skip
    try:
        return _train(run, dataset, quiet)
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


def _train(run: Run, dataset: Dataset, quiet: bool) -> Agent:
    config = run.config
    normalizer = fit_normalizer(dataset, config.data.normalize, config.data.clip)
    store = to_device(dataset, normalizer)
    encoder = ENCODERS[config.encoder.name].make(config.encoder, dataset.spec)
    state = _learn(run, "encoder", encoder, store, None, quiet)
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
    on_chunk = _evaluator(run, finish)
    state = _learn(run, "policy", policy, data, DATA_AXES, quiet, on_chunk)
    agent = finish(state)
    agents.save(agent, run.workdir)
    return agent


def _learn(run: Run, stage, learner, data, data_axes, quiet, on_chunk=None) -> LearnerState:
    """Run one stage's updates in chunks, from its last checkpoint, with bar, log and saves."""
    config, total = run.config, run.config[stage].updates
    folder, start = run.workdir / stage, time.monotonic()
    key_init, key_loop = (stage_keys(run.keys, 2 * STAGES.index(stage) + i) for i in range(2))
    state = over_seeds(learner.init, (0,))(key_init)
    meta = checkpoint.read_meta(folder) or {}
    done = 0
    if meta.get("identity") == run.identity(stage):
        state, done = checkpoint.restore(folder, state), meta["step"]
    saved = done
    with metrics.progress(stage, total, done, quiet) as bar:
        while done < total:
            length = min(config.log_every, total - done)
            advance = _compiled(learner, length, data_axes)
            state, values = advance(state, key_loop, data, jnp.asarray(done))
            values = jax.device_get(values)
            done += length
            run.log.write(done, values)
            metrics.show(bar, values, SHOWN[stage])
            bar.update(length)
            if on_chunk is not None:
                on_chunk(state, done)
            if done - saved >= config.checkpoint_every or done == total:
                checkpoint.save(folder, state, {"identity": run.identity(stage), "step": done})
                saved = done
    run.seconds[stage] = time.monotonic() - start
    return state


_PROGRAMS: dict[Any, Any] = {}


def _compiled(learner, length: int, data_axes):
    """Return the chunk's program, made once for each learner and length."""
    slot = (learner.update, length)
    if slot not in _PROGRAMS:
        loop = make_loop(learner.sample, learner.update, length)
        _PROGRAMS[slot] = over_seeds(loop, (0, 0, data_axes, None), donate=(0,))
    return _PROGRAMS[slot]


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
    place = dataset.reached(config.infer.num_states, config.seed)
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
