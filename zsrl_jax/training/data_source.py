"""Which data a run reads: the folder that the user named, or a collection of our own."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from zsrl_jax.data import Dataset, load_dataset
from zsrl_jax.data.formats import exorl
from zsrl_jax.data.formats.registry import detect
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import ConfigError, DataError
from zsrl_jax.exploration.collection import collect, recipe_of
from zsrl_jax.settings import checks
from zsrl_jax.settings.names import OTHER, run_name


def open_data(config: ConfigDict, quiet: bool = False, collect_missing: bool = True) -> Dataset:
    """Return the dataset that a config asks for: one that its path names, or a collection.

    Without `collect_missing` a collection that is not there is an error.
    """
    section = config.data
    path = given_path(config)
    if path is not None:
        dataset = load_dataset(
            path, section.format, section.max_episodes or None, every_nth=section.every_nth,
            subset_seed=None if section.subset_seed < 0 else section.subset_seed,
            on_bad=section.on_bad, store=section.store or None, progress=not quiet,
        )  # fmt: skip
        return as_asked(config, dataset)
    folder = collection_folder(config)
    if not collect_missing and not (folder / "buffer").is_dir():
        raise DataError(f"'{folder}' does not exist: expected the run's collection")
    return collect(
        config.domain, section.episodes, section.seed, folder, section.collect, not quiet
    )


def is_known(config: ConfigDict, dataset: Dataset | None) -> bool:
    """Tell whether the sizes of the data are known before it is opened or collected."""
    return dataset is not None or (config.domain != OTHER and given_path(config, True) is None)


def collection_folder(config: ConfigDict) -> Path:
    """Return the folder of the collection that a config asks for."""
    if config.domain == OTHER:
        raise DataError("domain 'other' cannot be collected: name its data by data.path")
    section = config.data
    recipe = json.dumps(recipe_of(config.domain, section.collect), sort_keys=True)
    mark = hashlib.blake2b(recipe.encode(), digest_size=4).hexdigest()
    name = f"rnd_{section.episodes}_seed{section.seed}_{mark}"
    return Path(section.cache) / config.domain / name


def refuse_unusable(config: Any) -> None:
    """Refuse what is no config of a run, and values that make no sense, before anything runs."""
    if not isinstance(config, ConfigDict):
        raise ConfigError(
            f"config is a {type(config).__name__}: expected a ConfigDict, such as "
            "zsrl_jax.config('cheetah', 'fb', 'btd', scale='smoke')"
        )
    checks.check(config)


def given(config: ConfigDict, dataset: Any) -> tuple[ConfigDict, Dataset | None]:
    """Return the config and the dataset that were given; a path becomes the config's data.path."""
    if isinstance(dataset, str | os.PathLike):
        config = config.copy_and_resolve_references()
        config.data.path = os.fspath(dataset)
        return config, None
    if isinstance(dataset, Mapping):
        dataset = load_dataset(dataset)
    if dataset is None or isinstance(dataset, Dataset):
        return config, None if dataset is None else as_asked(config, dataset)
    raise DataError(
        f"dataset is a {type(dataset).__name__}: expected a Dataset (zsrl_jax.load_dataset), "
        "or the path of one"
    )


def default_folder(config: ConfigDict, dataset: Dataset | None) -> Path:
    """Return a run's default folder, which says its scale and which data it reads."""
    data: Path | None
    if dataset is None:
        data = given_path(config, quiet=True)
    elif dataset.source == "memory":
        data = Path(f"memory-{dataset.fingerprint()[:4]}")
    else:
        data = Path(dataset.source.partition(":")[2])
        if config.domain != OTHER and collection_folder(config).absolute() in (
            data.absolute(),
            data.absolute().parent,
        ):
            data = None  # the collection that the config asks for
    return Path("runs") / run_name(config, data)


def as_asked(config: ConfigDict, dataset: Dataset) -> Dataset:
    """Return the dataset as one of the config's domain, or raise if it is of another."""
    if config.domain == OTHER:
        return dataset
    domain, found = DOMAINS[config.domain], dataset.spec
    fits = found == (domain.obs_dim, domain.action_dim)
    if fits and dataset.domain == config.domain:
        return dataset
    if fits and dataset.domain is None:
        return dataclasses.replace(dataset, domain=config.domain)  # as the user says
    raise DataError(
        f"'{dataset.source}' holds {dataset.domain or 'an unknown domain'} (obs {found.obs_dim}, "
        f"action {found.action_dim}): expected {config.domain} (obs {domain.obs_dim}, action "
        f"{domain.action_dim}); for a robot of your own, the domain is '{OTHER}'"
    )


def given_path(config: ConfigDict, quiet: bool = False) -> Path | None:
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
        if not quiet:
            print(f"data: ZSRL_DATA={common} has no {config.domain} episodes, so they are "
                  "collected")  # fmt: skip
        return None


def _find(path: str, config: ConfigDict) -> Path:
    """Return the path, or the folder of the config's domain if the path is an ExORL tree."""
    root = Path(path)
    if config.data.format not in ("auto", "exorl"):
        return root
    if root.exists() and (root.is_file() or detect(root) != "exorl"):
        return root
    return exorl.find_buffer(root, config.domain, config.data.algo)
