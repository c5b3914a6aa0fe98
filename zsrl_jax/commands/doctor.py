"""Can this machine run, and are the runs and data on it intact? python -m experiments.doctor

    python -m experiments.doctor [FOLDER ...]      # run folders, data folders, or folders of them
    python -m experiments.doctor --config=...      # memory and hours of a run, on usual devices

It prints one line per check. Without folders it looks at `runs` and ZSRL_DATA. The exit code is 1
if something is broken, else 0; a warning does not count.
"""

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("jax", "flax", "optax", "distrax", "orbax-checkpoint", "numpy", "ml_collections")
LITTLE_MEMORY, LITTLE_DISK = 4.0, 5.0  # GiB: what a laptop run takes, and some reserve
MOST = 200  # episodes of a data folder that are opened


class Finding(NamedTuple):
    """The result of a check: ok, warn or BROKEN, and one line of text."""

    state: str
    text: str


def versions() -> Iterator[Finding]:
    """Check the packages, first the pair that must fit: dm_control and mujoco."""
    found = {name: _version(name) for name in ("dm_control", "mujoco")}
    pair = " with ".join(f"{name} {version}" for name, version in found.items())
    try:
        from zsrl_jax.envs import Simulator

        Simulator("cheetah", 1).reset([0])
        yield Finding("ok", f"{pair}: the simulator steps")
    except Exception as error:
        advice = "pip install 'dm_control>=1.0.50' 'mujoco>=3.17,<4'"
        yield Finding("BROKEN", f"{pair} do not work together ({_line(error)}): {advice}")
    missing = [name for name in PACKAGES if _version(name) == "missing"]
    shown = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    yield Finding("BROKEN" if missing else "ok", f"python {platform.python_version()}, {shown}")


def devices() -> Iterator[Finding]:
    """Check which devices JAX sees, and whether it computes."""
    import jax
    import jax.numpy as jnp

    names = ", ".join(str(device) for device in jax.devices())
    total = float(jnp.sum(jnp.arange(1000.0)))
    good = total == 499500.0
    yield Finding("ok" if good else "BROKEN", f"devices: {names}; 0 + ... + 999 = {total:.0f}")


def memory() -> Iterator[Finding]:
    """Check the free memory."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():  # includes what the system can free
        rows = dict(line.split(":") for line in meminfo.read_text().splitlines())
        free = int(rows["MemAvailable"].split()[0]) / 2**20
    state = "ok" if free >= LITTLE_MEMORY else "warn"
    yield Finding(state, f"memory: {free:.1f} GiB free (laptop scale wants {LITTLE_MEMORY:.0f})")


def disk(folder: Path = Path("runs")) -> Iterator[Finding]:
    """Check the disk that runs are written to: free space, and whether it takes files."""
    place = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free / 2**30
    state = "ok" if free >= LITTLE_DISK else "warn"
    yield Finding(state, f"disk: {free:.1f} GiB free below '{place}'")
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        yield Finding("BROKEN", f"disk: '{place}' takes no files: {_line(error)}")


def pictures() -> Iterator[Finding]:
    """Check whether states can be drawn, and in which format films are written."""
    from zsrl_jax.commands.films import WITHOUT, find_ffmpeg
    from zsrl_jax.envs.render import render_physics
    from zsrl_jax.envs.simulator import Simulator

    try:
        simulator = Simulator("cheetah", 1)
        simulator.reset([0])
        frame = render_physics("cheetah", simulator.physics(), width=32, height=32)
        drawn = "ok" if frame.std() > 0 else "warn"
        yield Finding(drawn, "pictures: a frame was drawn" + ("" if drawn == "ok" else ", empty"))
    except Exception as error:
        yield Finding("warn", f"pictures: no films, nothing else is affected: {_line(error)}")
    found = find_ffmpeg()
    told = f"mp4 by {found[1]} ({found[0]})" if found else f"gif; {WITHOUT}"
    yield Finding("ok" if found else "warn", f"films: {told}")


def data(folder: Path) -> Iterator[Finding]:
    """Open the episodes of a data folder."""
    from zsrl_jax.data.formats import exorl
    from zsrl_jax.errors import DataError

    files = exorl.list_episodes(folder)
    opened = files[:: max(1, len(files) // MOST)]
    bad = []
    for file in opened:
        try:
            exorl.read_episode(file)
        except DataError as error:
            bad.append(_line(error))
    for line in bad[:3]:
        yield Finding("BROKEN", f"data: {line}")
    state = "BROKEN" if bad else "ok"
    whole = f"{len(opened) - len(bad)} of {len(opened)} opened are whole"
    yield Finding(state, f"data: '{folder}': {len(files)} episodes, {whole}")


def run_folder(folder: Path) -> Iterator[Finding]:
    """Check every save of a run against its checksums, and report how far the run is."""
    from zsrl_jax.errors import LockedError, ZsrlError
    from zsrl_jax.files import lock
    from zsrl_jax.runs import checkpoint, step_saves
    from zsrl_jax.runs.identity import STAGES

    try:
        with lock.held(folder):
            pass
    except LockedError as error:
        yield Finding("ok", f"run: {error}")
        return  # its saves change while it runs
    except ZsrlError as error:
        yield Finding("warn", f"run: {error}")
    came = []
    for stage in STAGES[1:]:
        bad = []
        for step, place in step_saves.steps(folder / stage):
            try:
                checkpoint.verify(place)
                came.append(f"{stage} {step}")
            except ZsrlError as error:
                bad.append(_line(error))
        good = any(name.startswith(f"{stage} ") for name in came)
        told = "an older save is good" if good else "no other save is good: the stage starts anew"
        yield from (Finding("BROKEN", f"run: {line}; {told}") for line in bad)
    if (folder / "agent").exists():
        try:
            checkpoint.verify(folder / "agent")
            came.append("agent")
        except ZsrlError as error:
            told = "the same command again writes it anew"
            yield Finding("BROKEN", f"run: {_line(error)}; {told}")
    finished = "finished" if (folder / "results.json").exists() else "not finished"
    yield Finding("ok", f"run: '{folder}': {finished}; saves {', '.join(came) or 'none'}")


def folders(roots: list[Path]) -> Iterator[tuple[Callable, Path]]:
    """Find run and data folders at and below some folders."""
    from zsrl_jax.data.formats import exorl
    from zsrl_jax.runs.identity import STAGES

    for root in roots:
        for place in [root, *sorted(p for p in root.rglob("*") if p.is_dir())]:
            names = {p.name for p in place.iterdir()}
            if names & set(STAGES[1:]) and "__init__.py" not in names:
                yield run_folder, place
            elif any(exorl.NAME.fullmatch(name) for name in names):
                yield data, place


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def examine(roots: list[Path]) -> Iterator[Finding]:
    """Run all checks; a check that fails itself is a finding too."""
    for check in (versions, devices, memory, disk, pictures):
        yield from _safely(check)
    try:
        places = list(folders(roots))
    except Exception as error:
        yield Finding("BROKEN", f"zsrl_jax cannot be imported: {_line(error)}")
        return
    for check, place in places:
        yield from _safely(check, place)
    if not places:
        yield Finding("ok", "no run or data folders in " + ", ".join(f"'{r}'" for r in roots))


def _safely(check: Callable, *args: Path) -> Iterator[Finding]:
    try:
        yield from check(*args)
    except Exception as error:
        yield Finding("BROKEN", f"{check.__name__}: {type(error).__name__}: {_line(error)}")


def _sizes(argv: list[str]) -> int:
    """Tell what a run needs of a device; bad input is one line."""
    from zsrl_jax.commands import sizes
    from zsrl_jax.errors import ZsrlError

    try:
        sizes.main(argv)
    except ZsrlError as error:
        print(f"error: {_line(error)}", file=sys.stderr)
        return 2
    return 0


def main(argv: list[str]) -> int:
    """Print one line per finding; return the exit code."""
    if len(argv) > 1 and argv[1] in ("-h", "--help", "--helpshort", "--helpfull"):
        print(__doc__.strip())
        return 0
    if any(word.lstrip("-").startswith("config") for word in argv[1:] if word.startswith("-")):
        return _sizes(argv)
    if odd := [word for word in argv[1:] if word.startswith("-")]:
        print(f"error: unknown flag '{odd[0]}': doctor takes folders, or --config", file=sys.stderr)
        return 2
    given = [Path(arg) for arg in argv[1:]]
    missing = [folder for folder in given if not folder.is_dir()]
    if missing:
        print(f"error: folder '{missing[0]}' does not exist", file=sys.stderr)
        return 2
    common = os.environ.get("ZSRL_DATA")
    usual = [Path("runs"), *([Path(common)] if common else [])]
    broken = 0
    for state, text in examine(given or [folder for folder in usual if folder.is_dir()]):
        print(f"{state:<7}{text}", flush=True)
        broken += state == "BROKEN"
    print(f"{broken} thing(s) broken" if broken else "all is well")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
