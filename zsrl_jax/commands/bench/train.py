"""Speed of training: every encoder and the policy, at laptop and at paper sizes.

    share = flops of the compiled update / seconds / (flops per second of a large matrix product)

All programs of a row run in turn in one process, and the best time of each counts: one, two and
five seeds; one seed on a constant batch (the difference is the cost of sampling); the matrix
product; and the same update in PyTorch eager mode (benchmarks/torch_updates.py), with sampling.
Laptop: 256 wide, batch 512. Paper: as in settings/fields.py, which is 1024 wide and 32 x 64 for the
policy, 1024 wide with a batch of 1024 for fb, and 256 wide for the rest.
Columns: `of n x 1` is the rate of the most seeds in one program over that of one seed. `first s` is
the time to the first update of a new process with nothing compiled yet, without imports; `restart`
is the share of it that a second such process takes (train.json has both). `--growth` adds the cost
of an update against d, batch and rows of data. Memory is the compiler's figure for one update of
one seed, with its data.
"""

import argparse
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax

from zsrl_jax.commands.bench._train_cases import NAMES, SIZES, build
from zsrl_jax.commands.bench._train_chart import draw
from zsrl_jax.commands.bench._train_growth import growth
from zsrl_jax.commands.bench._train_timing import measure, starts
from zsrl_jax.errors import DataError, unknown
from zsrl_jax.files.atomic import write_text

WANTED = {  # size -> what each column should reach; pipeline and restart at most
    "laptop": {"share": 0.75, "torch_ratio": 1.5},
    "paper": {"share": 0.75, "torch_ratio": 1.25},
}
ALWAYS = {"pipeline": 0.05, "many_to_one": 0.95, "restart": 1 / 3}
AT_MOST = {"pipeline", "restart"}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table; save it and its chart."""
    parser = argparse.ArgumentParser(prog="experiments.bench train", description=__doc__)
    parser.add_argument("--only", default=NAMES, type=_words, help="such as fb,policy")
    parser.add_argument("--sizes", default=["laptop", "paper"], type=_words, help=", ".join(SIZES))
    parser.add_argument("--seeds", default=["1", "2", "5"], type=_words)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no_torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--no_starts", action="store_true", help="leave the starts out")
    parser.add_argument("--growth", action="store_true", help="cost against d, batch and rows")
    parser.add_argument("--product", type=int, default=2048, help="rows of the matrix product")
    parser.add_argument("--out", type=Path, default=Path("runs/bench"), help="folder of the files")
    options = parser.parse_args(list(argv) if argv is not None else None)
    _check(options)
    options.out.mkdir(parents=True, exist_ok=True)
    seeds = sorted({1, *map(int, options.seeds)})
    found: dict[str, Any] = {"machine": machine(), "rows": []}
    print(told(found["machine"]))
    _print_head(seeds)
    for size in options.sizes:
        for name in options.only:
            row = measure(
                build(name, size), seeds, options.repeats, not options.no_torch, options.product
            )
            if not options.no_starts:
                row |= starts(name, size)
                row["restart"] = row["second_start"] / row["first_start"]
            row["missed"] = missed(row)
            found["rows"].append(row)
            _print_row(row, seeds)
            write_text(options.out / "train.json", json.dumps(found, indent=1))
    if options.growth:
        found["growth"] = growth(options.only, options.sizes[0], options.repeats)
        write_text(options.out / "train.json", json.dumps(found, indent=1))
    draw(found, options.out / "train.png")
    print(f"{options.out / 'train.json'}, {options.out / 'train.png'}")


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _check(options: argparse.Namespace) -> None:
    for given, known, kind in ((options.only, NAMES, "learner"), (options.sizes, SIZES, "size")):
        for name in given:
            if name not in known:
                raise DataError(unknown(kind, name, known))
    if wrong := [text for text in options.seeds if not (text.isdigit() and int(text))]:
        raise DataError(f"--seeds has '{wrong[0]}': expected numbers above 0, such as 1,2,5")
    if not options.no_torch and jax.default_backend() != "cpu":
        raise DataError(
            f"PyTorch's updates run on the CPU, ours on {jax.default_backend()}: leave them out "
            "with --no_torch, or compare on the CPU with JAX_PLATFORMS=cpu"
        )
    if not options.no_torch and find_spec("torch") is None:
        raise DataError(
            "PyTorch is missing: pip install 'zsrl_jax[bench]', or leave it out: --no_torch"
        )


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    model = platform.processor()
    if (cpuinfo := Path("/proc/cpuinfo")).exists():
        names = [
            s.split(":")[1].strip() for s in cpuinfo.read_text().split("\n") if "model name" in s
        ]
        model = names[0] if names else model
    device = jax.devices()[0]
    return {"processor": model, "cores": os.cpu_count(), "device": device.device_kind,
            "jax": jax.__version__, "load": os.getloadavg()[0],
            "torch": version("torch") if find_spec("torch") else None}  # fmt: skip


def told(machine: dict[str, Any]) -> str:
    """Return the machine in one line."""
    return "{processor}, {cores} cores; {device}, jax {jax}; load {load:.1f}".format(**machine)


def missed(row: dict[str, Any]) -> list[str]:
    """Name the columns of a row that miss their target."""
    wanted = ALWAYS | WANTED.get(row["size"], {})
    found = [name for name in wanted if name in row]
    return [n for n in found if (row[n] > wanted[n] if n in AT_MOST else row[n] < wanted[n])]


COLUMNS = {  # field -> heading, format
    "many_to_one": ("of n x 1", ".2f"),
    "share": ("share", ".2f"),
    "pipeline": ("pipeline", ".1%"),
    "torch_ratio": ("x torch", ".2f"),
    "first_start": ("first s", ".1f"),
    "restart": ("restart", ".2f"),
    "peak_mib": ("MiB", ".0f"),
}


def _print_head(seeds: list[int]) -> None:
    print(f"{'':18}" + f"{'updates/s, summed over seeds':>{11 * len(seeds)}}")
    heads = [f"{n} seeds" if n > 1 else "1 seed" for n in seeds]
    heads += [head for head, _ in COLUMNS.values()]
    print(f"{'':18}" + "".join(f"{head:>11}" for head in heads))


def _print_row(row: dict[str, Any], seeds: list[int]) -> None:
    cells = [format(row["seeds"][str(n)], ".1f") for n in seeds]
    cells += [format(row[f], form) if f in row else "" for f, (_, form) in COLUMNS.items()]
    short = "  missed: " + ", ".join(row["missed"]) if row["missed"] else ""
    print(f"{row['name'] + ' ' + row['size']:18}" + "".join(f"{c:>11}" for c in cells) + short,
          flush=True)  # fmt: skip
