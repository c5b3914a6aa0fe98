"""Studies of a trained encoder without a policy: dilution of returns, and where tasks lie.

Both train the encoder if it is not on disk. Then they draw occupancies and task vectors of every
seed and pass them to `geometry`, whose docstring has the equations.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from ml_collections import ConfigDict

from zsrl_jax.agent import Agent, AgentParams
from zsrl_jax.analysis import geometry
from zsrl_jax.data import Dataset
from zsrl_jax.envs import DOMAINS
from zsrl_jax.tasks import SAMPLERS
from zsrl_jax.tasks.occupancy import draw_pieces, occupancies
from zsrl_jax.training.encoded import (
    DATA_AXES,
    Encoded,
    encode,
    prompt_states,
    see_behaviour,
    states_before,
)
from zsrl_jax.training.loop import Stream, stream_keys
from zsrl_jax.training.run import Run, running

SAMPLED = {
    "uniform": Stream.STUDY_UNIFORM,
    "subtraj": Stream.STUDY_SUBTRAJ,
    "btd": Stream.STUDY_BTD,
}


def train_encoder(
    config: ConfigDict, dataset: Dataset, workdir: Path, quiet: bool = False
) -> dict[str, float]:
    """Train the encoder of a config alone and return the seconds it took."""
    with running(config, dataset, workdir, quiet) as (run, dataset):
        encode(run, dataset)
        return run.seconds


def dilution(
    config: ConfigDict,
    dataset: Dataset,
    workdir: Path,
    quiet: bool = False,
    *,
    num_pieces: int,
    num_tasks: int,
) -> dict[str, Any]:
    """Measure Tr(Sigma) / d and the variance of returns under each sampler; lists over seeds.

    Seeds whose encoder failed are left out, here and in `task_space`.
    """
    with running(config, dataset, workdir, quiet) as (run, dataset):
        encoded, alive = encode(run, dataset), _alive(run)
        psi, square = (found[alive] for found in _occupancies(run, encoded, num_pieces))
        scaled = [p / s**0.5 for p, s in zip(psi, square, strict=True)]
        variance = {}
        for name in SAMPLED:
            z = _draw(run, encoded, name, num_tasks)[alive]
            pairs = zip(scaled, z, strict=True)
            variance[name] = [geometry.return_variance(p, tasks) for p, tasks in pairs]
    trace = [geometry.normalized_trace(p) for p in scaled]
    return {"dim": config.encoder.dim, "trace": trace, "variance": variance} | {
        "square_norm": [float(s) for s in square],
        "num_pieces": num_pieces,
        "num_tasks": num_tasks,
        "failed": [failure._asdict() for failure in run.failed.values()],
    }


def task_space(
    config: ConfigDict,
    dataset: Dataset,
    workdir: Path,
    quiet: bool = False,
    *,
    num: int,
    threshold: float,
) -> tuple[dict[str, Any], dict[str, Float[np.ndarray, "seed n d"]]]:
    """Return overlap numbers, and the vectors: of the data, btd, uniform, and the test tasks."""
    with running(config, dataset, workdir, quiet) as (run, dataset):
        encoded = encode(run, dataset)
        vectors = {name: _draw(run, encoded, name, num) for name in SAMPLED}
    states = prompt_states(config, dataset)
    pool = jnp.asarray(vectors["subtraj"])
    params = AgentParams(run.local(encoded.data.encoder), None, pool, encoded.normalizer, *states)
    params = params._replace(prompt_before=states_before(config, dataset, encoded.encoder))
    agent = Agent(_plain(config), dataset.spec, dataset.domain, params)
    tasks = list(DOMAINS[config.domain].tasks)
    vectors["tasks"] = np.stack([agent.infer(task) for task in tasks], axis=1)
    vectors = {name: found[_alive(run)] for name, found in vectors.items()}
    rivals = ("btd", "uniform")
    found = [
        geometry.overlap(z, {name: vectors[name][i] for name in rivals}, threshold)._asdict()
        for i, z in enumerate(vectors["tasks"])
    ]
    failed = [failure._asdict() for failure in run.failed.values()]
    return {"tasks": tasks, "overlap": found, "num": num, "failed": failed}, vectors


def _alive(run: Run) -> list[int]:
    """Return the indices of the seeds that have not failed."""
    return [place for place in range(len(run.keys)) if place not in run.failed]


def _plain(config: ConfigDict) -> ConfigDict:
    """Return a config whose prompts give the regression's z, not the data's nearest task."""
    plain = config.copy_and_resolve_references()
    plain.infer.nearest = plain.infer.behaviours = 0
    return plain


def _occupancies(
    run: Run, encoded: Encoded, num: int
) -> tuple[Float[np.ndarray, "seed n d"], Float[np.ndarray, " seed"]]:
    """Draw psi of sub-trajectories, and the mean square norm of phi, for every seed."""
    section = run.config.tasks

    def one(key: Key[Array, ""], data: Any) -> tuple[Array, Array]:
        behaviour = see_behaviour(encoded.encoder, data)
        pieces = draw_pieces(key, behaviour, section, num)
        psi = occupancies(behaviour, pieces, section.discount)
        single = pieces._replace(length=jnp.ones_like(pieces.length))
        phi = occupancies(behaviour, single, section.discount)
        return psi, jnp.mean(jnp.sum(phi**2, axis=-1))

    found = run.over_seeds(one, (0, DATA_AXES))(
        stream_keys(run.keys, Stream.STUDY_PIECES), encoded.data
    )
    psi, square = run.local(found)
    return np.asarray(psi), np.asarray(square)


def _draw(run: Run, encoded: Encoded, name: str, num: int) -> Float[np.ndarray, "seed n d"]:
    """Fit a sampler and draw from it, for every seed."""
    sampler = SAMPLERS[name]

    def one(key: Key[Array, ""], data: Any) -> Array:
        key_fit, key_draw = jax.random.split(key)
        behaviour = see_behaviour(encoded.encoder, data)
        fitted = sampler.fit(key_fit, behaviour, run.config.tasks)
        return sampler.sample(key_draw, fitted, num)

    keys = stream_keys(run.keys, SAMPLED[name])
    return np.asarray(run.local(run.over_seeds(one, (0, DATA_AXES))(keys, encoded.data)))
