"""Which data a run reads: the folder that the user named, or a collection of our own."""

import dataclasses
import hashlib
import json
import os
from pathlib import Path

from ml_collections import ConfigDict

from zsrl_jax.data import Dataset, load_dataset
from zsrl_jax.data.formats import exorl
from zsrl_jax.data.formats.registry import detect
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import DataError
from zsrl_jax.exploration.collection import collect, recipe_of
from zsrl_jax.settings.names import OTHER


def open_data(config: ConfigDict, quiet: bool = False, collect_missing: bool = True) -> Dataset:
    """Return the dataset that a config asks for: one that its path names, or a collection.

    Without `collect_missing` a collection that is not there is an error.
    """
    section = config.data
    path = _given_path(config)
    if path is not None:
        dataset = load_dataset(
            path, section.format, section.max_episodes or None, every_nth=section.every_nth,
            subset_seed=None if section.subset_seed < 0 else section.subset_seed,
            on_bad=section.on_bad, store=section.store or None, progress=not quiet,
        )  # fmt: skip
        return _as_asked(config, dataset, path)
    if config.domain == OTHER:
        raise DataError("domain 'other' cannot be collected: name its data by data.path")
    recipe = json.dumps(recipe_of(config.domain, section.collect), sort_keys=True)
    mark = hashlib.blake2b(recipe.encode(), digest_size=4).hexdigest()
    name = f"rnd_{section.episodes}_seed{section.seed}_{mark}"
    folder = Path(section.cache) / config.domain / name
    if not collect_missing and not (folder / "buffer").is_dir():
        raise DataError(f"'{folder}' does not exist: expected the run's collection")
    return collect(
        config.domain, section.episodes, section.seed, folder, section.collect, not quiet
    )


def _as_asked(config: ConfigDict, dataset: Dataset, path: Path) -> Dataset:
    """Return the dataset as one of the config's domain, or raise if it is of another."""
    if config.domain in (OTHER, dataset.domain):
        return dataset
    domain = DOMAINS[config.domain]
    if dataset.domain is None and dataset.spec == (domain.obs_dim, domain.action_dim):
        return dataclasses.replace(dataset, domain=config.domain)  # as the user says
    raise DataError(
        f"'{path}' holds {dataset.domain or 'an unknown domain'} (obs {dataset.spec.obs_dim}, "
        f"action {dataset.spec.action_dim}): expected {config.domain}; for a robot of your "
        f"own, the domain is '{OTHER}'"
    )


def _given_path(config: ConfigDict) -> Path | None:
    """Return the path of the data that the user named, or None if data is to be collected."""
    section, common = config.data, os.environ.get("ZSRL_DATA", "")
    if section.source == "collect":
        return None
    if section.path:
        return _find(section.path, config)
    if section.source == "exorl" and not common:
        raise DataError("data.source is exorl: expected a folder in data.path or ZSRL_DATA")
    try:
        return _find(common, config) if common else None
    except DataError:
        if section.source == "exorl":
            raise
        print(f"data: ZSRL_DATA={common} has no {config.domain} episodes, so they are collected")
        return None


def _find(path: str, config: ConfigDict) -> Path:
    """Return the path, or the folder of the config's domain if the path is an ExORL tree."""
    root = Path(path)
    if config.data.format not in ("auto", "exorl"):
        return root
    if root.exists() and (root.is_file() or detect(root) != "exorl"):
        return root
    return exorl.find_buffer(root, config.domain, config.data.algo)
