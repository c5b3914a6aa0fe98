"""Names of runs: the cell of a study that a config is, and its default folder.

    runs/cheetah_fb_btd            laptop scale, on the scale's own collection
    runs/cheetah_fb_btd_smoke      another scale
    runs/other_fb_btd_cart_1f3a    data of your own: its name, and a mark of where it is
    runs/cheetah_fb_btd_data3      another collection, here with data.seed=3

So runs of other scales or data have folders of their own. Other fields are not in the name: the
folder of a run with other settings is refused, field by field.
"""

import hashlib
import json
import os
import re
from pathlib import Path

from ml_collections import ConfigDict

from zsrl_jax.envs import DOMAINS
from zsrl_jax.settings import fields
from zsrl_jax.settings.scales import OF_DOMAIN, SCALES

OTHER = "other"  # the domain of data whose robot the project does not know
BARE = "laptop"  # the scale that is not in a folder's name
LONGEST = 24  # letters of a dataset's name
PLAIN = ("buffer", "data", "main_data", "train", "episodes")  # names that say nothing
COLLECTED = {"episodes": "episodes", "seed": "data"}  # fields of a collection, and their marks
READ = {"max_episodes": "max", "every_nth": "nth", "subset_seed": "subset"}  # of data at a path


def is_own(config: ConfigDict) -> bool:
    """Tell whether the encoder's own policy is used and no other is trained."""
    return config.policy.get("kind", "td3") == "own"


def cell_name(config: ConfigDict) -> str:
    """Return the name of a config's cell."""
    if "oracle" in config:
        tasks = tuple(config.oracle.tasks)
        known = tuple(DOMAINS[config.domain].tasks) if config.domain in DOMAINS else ()
        return "_".join([config.domain, "oracle", *(() if tasks == known else tasks)])
    sampler = "own" if is_own(config) else config.tasks.sampler
    return f"{config.domain}_{config.get('preset') or config.encoder.name}_{sampler}"


def run_name(config: ConfigDict, data: str | os.PathLike[str] | None = None) -> str:
    """Return the name of a run's default folder: its cell, its scale, and data not the default.

    `data` is where the run's data is; None if it is collected.
    """
    scale = () if config.scale == BARE else (config.scale,)
    section, default = config.data, _default_data(config.scale, config.domain)
    marks = READ if data is not None else COLLECTED
    found = [] if data is None else [data_name(data)]
    found += [
        f"{mark}{section[name]}" for name, mark in marks.items() if section[name] != default[name]
    ]
    if data is None and section.collect.to_dict() != default["collect"].to_dict():
        found.append("recipe_" + _mark(json.dumps(section.collect.to_dict(), sort_keys=True)))
    return "_".join([cell_name(config), *scale, *found])


def data_name(place: str | os.PathLike[str]) -> str:
    """Return a short name of data: that of its file or folder, and a mark of its whole path."""
    path = Path(place).absolute()
    parts = [re.sub(r"[^A-Za-z0-9]+", "-", part).strip("-") for part in path.parts]
    stem = re.sub(r"[^A-Za-z0-9]+", "-", path.stem).strip("-")
    if stem in PLAIN and len(parts) > 2:
        stem = parts[-2]
    return f"{stem[:LONGEST].strip('-') or 'data'}_{_mark(str(path))}"


def _mark(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=2).hexdigest()


def _default_data(scale: str, domain: str) -> ConfigDict:
    """Return a cell's defaults of the fields that decide which data a run reads."""
    made = fields.get_config(OTHER, "fb", "btd").data
    for table in (SCALES.get(scale, {}), OF_DOMAIN.get((scale, domain), {})):
        made.update(table.get("data", {}))
    return made
