"""Pack finished runs as agents that ship: python -m experiments.agents runs/cheetah_fb_btd

Each run becomes zsrl_jax/agents/<domain>.npz with its card <domain>.json. The scores on the card
are those of all seeds of the run's results.json; --results adds runs of other seeds of the same
config.
"""

from pathlib import Path

from absl import flags

from zsrl_jax.commands import cli, usage_of
from zsrl_jax.errors import ConfigError
from zsrl_jax.runs import shipped
from zsrl_jax.web.packing import Sizes, pack

OUT = flags.DEFINE_string("out", str(shipped.FOLDER), "folder for the packed agents")
MEMBER = flags.DEFINE_integer("member", 0, "which training seed of the run is packed")
STATES = flags.DEFINE_integer("states", 0, "prompt states to keep; 0: as many as fit", 0)
TASKS = flags.DEFINE_integer("task_vectors", 0, "task vectors to keep; 0: as many as fit", 0)
RESULTS = flags.DEFINE_list("results", [], "more runs of the same config, other seeds, for scores")


def main(argv: list[str]) -> None:
    """Pack every run that is named."""
    if len(argv) < 2:
        raise ConfigError(f"expected finished runs: {usage_of('agents', 'RUN...')}")
    if RESULTS.value and len(argv) > 2:
        raise ConfigError("--results belongs to one run: pack the runs one by one")
    sizes, more = Sizes(STATES.value, TASKS.value), [Path(name) for name in RESULTS.value]
    for name in argv[1:]:
        print(pack(Path(name), Path(OUT.value), member=MEMBER.value, sizes=sizes, more=more))


if __name__ == "__main__":
    cli.run(main)
