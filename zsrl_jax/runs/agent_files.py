"""Agents on disk: `train` writes them into a run folder, `load` reads them.

A folder written before a config field existed is read with that field's default.
"""

import json
import os
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from zsrl_jax.agent import Agent, AgentParams
from zsrl_jax.data import Normalizer
from zsrl_jax.errors import DataError
from zsrl_jax.oracle import Oracle, OracleParams
from zsrl_jax.registration import missing_part
from zsrl_jax.runs import checkpoint, shipped
from zsrl_jax.settings import fields
from zsrl_jax.types import Spec


def save(agent: Agent | Oracle, workdir: Path) -> None:
    """Write an agent so that `load` can read it."""
    tree = {name: x for name, x in agent.params._asdict().items() if x is not None}
    if "prompt_physics" in tree:
        tree["prompt_physics"] = np.asarray(tree["prompt_physics"], np.float64)
    tree = _plain(tree)
    meta = {
        "config": json.loads(agent.config.to_json_best_effort()),
        "spec": list(agent.spec),
        "domain": agent.domain,
        "tree": jax.tree.map(lambda leaf: [list(leaf.shape), str(leaf.dtype)], tree),
    }
    checkpoint.save(workdir / "agent", tree, meta)


def load(workdir: str | os.PathLike[str]) -> Agent | Oracle:
    """Load the Agent (or Oracle) that a finished run left in its folder.

    The name of an agent that ships with the package ("cheetah") loads that one, unless a run of
    that name stands here.
    """
    if str(workdir) in shipped.names() and not (Path(workdir) / "agent").is_dir():
        return shipped.read(str(workdir))
    workdir = Path(workdir)
    if workdir.is_file():
        raise DataError(f"'{workdir}' is a file: expected the run's folder, '{workdir.parent}'")
    if not workdir.is_dir():
        ours = ", ".join(shipped.names())
        raise DataError(
            f"run folder '{workdir}' does not exist: expected a folder made by a run, or the name "
            f"of an agent that ships ({ours})"
        )
    meta = checkpoint.read_meta(workdir / "agent")
    if meta is None:
        raise DataError(
            f"run folder '{workdir}' has no finished agent: run the same command again to finish it"
        )
    try:
        return _read(workdir, meta)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"the agent in '{workdir}' has an unknown description "
            f"({type(error).__name__}: {error}): it is damaged, or of another version"
        ) from error


def _read(workdir: Path, meta: dict[str, Any]) -> Agent | Oracle:
    """Build an agent from its description, which is names and numbers: no code is run."""
    is_leaf = lambda x: isinstance(x, list) and len(x) == 2 and isinstance(x[1], str)  # noqa: E731
    like = jax.tree.map(lambda leaf: _shape(*leaf), meta["tree"], is_leaf=is_leaf)
    kinds: tuple[Any, Any] = (Agent, AgentParams)
    made, holder = (Oracle, OracleParams) if "oracle" in meta["config"] else kinds
    encoder = str(meta["config"]["encoder"]["name"]) if made is Agent else None
    if lacking := missing_part(encoder, None):
        raise DataError(f"the agent in '{workdir}' {lacking}")
    config = fields.with_defaults(meta["config"])  # now the encoder's own fields are known
    if lacking := missing_part(None, meta["domain"]):  # it acts without, but cannot be scored
        warnings.warn(f"to score or film it, the agent in '{workdir}' {lacking}", stacklevel=3)
    tree = checkpoint.restore(workdir / "agent", like)
    tree["normalizer"] = Normalizer(**tree["normalizer"])
    params = holder(**{name: tree.get(name) for name in holder._fields})
    return made(config, Spec(*meta["spec"]), meta["domain"], params, workdir)


def _shape(shape: list[int], dtype: str) -> jax.ShapeDtypeStruct:
    """Return the shape and type that an array on disk must have; it must hold numbers."""
    if np.dtype(dtype).kind not in "biuf" or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"an array of {dtype} and shape {shape}")
    made: jax.ShapeDtypeStruct = jax.ShapeDtypeStruct(  # type: ignore[no-untyped-call] # of JAX
        tuple(shape), np.dtype(dtype)
    )
    return made


def _plain(tree: Any) -> Any:
    """Turn NamedTuples into dicts, so that the tree on disk needs no class to be read."""
    if hasattr(tree, "_asdict"):
        return {name: _plain(value) for name, value in tree._asdict().items()}
    if isinstance(tree, dict):
        return {name: _plain(value) for name, value in tree.items()}
    return tree
