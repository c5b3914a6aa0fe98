"""Which data a run reads: the folder its user named, or a collection of our own, kept for reuse."""

import hashlib
import json
import os
from pathlib import Path

from ml_collections import ConfigDict

from zsrl_jax.collection import collect
from zsrl_jax.data import Dataset, exorl, load_dataset
from zsrl_jax.errors import ConfigError, DataError, unknown


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
