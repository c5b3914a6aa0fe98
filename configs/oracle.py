"""The reference line: TD3 on the true reward of tasks: configs/oracle.py:DOMAIN[,TASK...][,SCALE].

    python -m experiments.run --config=configs/oracle.py:walker,run
    python -m experiments.run --config=configs/oracle.py:walker      # or :walker,all: every task

All tasks (x seeds) are trained in one program, on the data and with the policy's fields of a cell
of that scale; the critic has a plain head, for there is no z. SCALE as in configs/cell.py.
"""

from ml_collections import ConfigDict

from configs.cell import SCALES, get_cell
from zsrl_jax import DOMAINS
from zsrl_jax.errors import ConfigError, TaskError, unknown


def get_config(arg: str = "") -> ConfigDict:
    """Read DOMAIN[,TASK...][,SCALE]; no task, or `all`, means every task of the domain."""
    parts = [part.strip() for part in arg.split(",")] if arg else []
    scale = parts.pop() if len(parts) > 1 and parts[-1] in (*SCALES, "auto") else "auto"
    if not parts:
        raise ConfigError(
            "configs/oracle.py names no domain: expected configs/oracle.py:domain[,task...]"
            "[,scale], such as :walker,run or :walker,all,smoke"
        )
    domain, *asked = parts
    if early := [name for name in asked if name in (*SCALES, "auto")]:
        raise ConfigError(f"configs/oracle.py:{arg}: the scale ({early[0]}) comes last")
    if domain not in DOMAINS:
        raise TaskError(unknown("domain", domain, DOMAINS))
    config = get_cell(domain, "fb", "uniform", scale)
    known = tuple(DOMAINS[domain].tasks)
    for name in asked:
        if name not in (*known, "all"):
            raise TaskError(unknown(f"{domain} task", name, (*known, "all", *SCALES)))
    tasks = known if not asked or "all" in asked else tuple(dict.fromkeys(asked))
    with config.unlocked():
        del config.encoder, config.tasks, config.infer
        config.oracle = ConfigDict({"tasks": tasks})  # each gets a policy of its own
        config.policy.head = "scalar"
    return config.lock()
