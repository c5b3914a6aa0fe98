"""Names of runs: which cell of a study a config is, and the folder it goes to by default."""

from ml_collections import ConfigDict

from zsrl_jax.envs import DOMAINS

OTHER = "other"  # the domain of data whose robot the project does not know


def is_own(config: ConfigDict) -> bool:
    """Tell whether the encoder's own policy is the final one, and no other is trained."""
    return config.policy.get("kind", "td3") == "own"


def cell_name(config: ConfigDict) -> str:
    """Name the cell of the study that a config is: it names the run folder."""
    if "oracle" in config:
        tasks = tuple(config.oracle.tasks)
        named = () if tasks == tuple(DOMAINS[config.domain].tasks) else tasks
        return "_".join([config.domain, "oracle", *named])
    sampler = "own" if is_own(config) else config.tasks.sampler
    return f"{config.domain}_{config.encoder.name}_{sampler}"
