"""Names of runs: the cell of a study that a config is, and its default folder."""

from ml_collections import ConfigDict

from zsrl_jax.envs import DOMAINS

OTHER = "other"  # the domain of data whose robot the project does not know


def is_own(config: ConfigDict) -> bool:
    """Tell whether the encoder's own policy is used and no other is trained."""
    return config.policy.get("kind", "td3") == "own"


def cell_name(config: ConfigDict) -> str:
    """Return the name of a config's cell, which is also that of the run folder."""
    if "oracle" in config:
        tasks = tuple(config.oracle.tasks)
        named = () if tasks == tuple(DOMAINS[config.domain].tasks) else tasks
        return "_".join([config.domain, "oracle", *named])
    sampler = "own" if is_own(config) else config.tasks.sampler
    return f"{config.domain}_{config.encoder.name}_{sampler}"
