"""Datasets from the command line.

python -m experiments.data inspect PATH [--plot out.png]             a summary of what it holds
python -m experiments.data convert SRC DST --to exorl|ogbench|minari  between formats
"""

from absl import flags

from zsrl_jax import load_dataset
from zsrl_jax.commands import cli
from zsrl_jax.data import summary
from zsrl_jax.data.writing import WRITERS, write_dataset
from zsrl_jax.errors import ConfigError, unknown

FORMAT = flags.DEFINE_string("format", "auto", "format of the data that is read")
PLOT = flags.DEFINE_string("plot", None, "inspect: draw the data into this file")
TO = flags.DEFINE_enum("to", None, list(WRITERS), "convert: the format to write")
ON_BAD = flags.DEFINE_enum("on_bad", "error", ["error", "skip"], "what to do with damaged ones")
MAX_EPISODES = flags.DEFINE_integer("max_episodes", None, "read only the first N episodes")
STORE = flags.DEFINE_string("store", None, "folder for packed stores; default: beside the data")
COMMANDS = {"inspect": ("PATH",), "convert": ("SRC", "DST")}


def main(argv) -> None:
    """Run the command that the first argument names."""
    name, given = argv[1] if len(argv) > 1 else "", argv[2:]
    if name not in COMMANDS:
        raise ConfigError(unknown("command", name, COMMANDS))
    wanted = COMMANDS[name]
    if len(given) != len(wanted):
        raise ConfigError(f"{name} got {len(given)} arguments: expected {' '.join(wanted)}")
    if name == "inspect":
        inspect(*given)
    else:
        convert(*given)


def _load(path: str):
    return load_dataset(
        path, FORMAT.value, MAX_EPISODES.value, on_bad=ON_BAD.value, store=STORE.value
    )


def inspect(path: str) -> None:
    """Print the summary of a dataset; draw it if --plot names a file."""
    cli.check_picture("--plot", PLOT.value)
    dataset = _load(path)
    dataset.verify()
    for line in summary.describe(dataset):
        print(line)
    if PLOT.value:
        print(f"plot: {summary.plot(dataset, PLOT.value)}")


def convert(source: str, target: str) -> None:
    """Write a dataset in another format."""
    if TO.value is None:
        raise ConfigError(f"convert got no format: expected --to {'|'.join(WRITERS)}")
    dataset = _load(source)
    for line in write_dataset(dataset, target, TO.value):
        print(f"left out: {line}")
    print(f"{dataset}\nwritten as {TO.value} to {target}")


if __name__ == "__main__":
    cli.run(main)
