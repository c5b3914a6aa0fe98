"""Strict JAX for every test: no silent rank promotion; programs kept; little memory."""

import contextlib
import ctypes
import gc
import os
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from helpers.small_data import draw_noise

from zsrl_jax.data import Dataset
from zsrl_jax.devices import compile_cache

LONG = (  # files that take minutes: begun first, so that none is left for the end
    "test_laws.py", "test_seed_laws.py", "test_mesh.py", "test_td3.py", "test_tasks.py",
    "test_processes.py",
    "test_stage_faults.py", "test_command_faults.py", "test_paper.py", "test_jobs.py",
    "test_end_to_end.py", "test_fit.py", "test_one_run.py", "test_report.py",
)  # fmt: skip
# Files that compare bits between programs, or read what the compiler says of memory: compiled with
# optimisations. Everywhere else programs are compiled quickly, which is most of a test's time.
OPTIMISED = {
    "test_seed_laws.py", "test_oracle.py", "test_memory.py", "test_lowering.py",
    "test_mesh.py", "mesh_cases.py",
}  # fmt: skip
# XLA's ways to compile for a CPU in half the time; the cache tells programs by these flags.
QUICK = (
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 "
    "--xla_backend_optimization_level=1"
)
AS_A_USER = ("whole", "faults", "browser", "slurm")  # these suites have a user's own programs
LARGE = 2**30  # bytes of a worker at which compiled programs are forgotten

compile_cache.keep()

jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_configure(config):
    """Let XLA compile sooner, here and in processes that tests start; before JAX has a device."""
    if config.option.markexpr not in AS_A_USER:
        os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}".strip()


def pytest_collection_modifyitems(items):
    """Put long files first; xdist keeps this order (--no-loadscope-reorder)."""
    order = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.fixture(autouse=True)
def strict_jax():
    with jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture(autouse=True, scope="module")
def compile_quickly(request):
    """Leave out most of the compiler's optimisations, except where they are needed.

    The same in the processes that these tests start.
    """
    is_users = request.config.option.markexpr in AS_A_USER
    quickly = request.path.name not in OPTIMISED and not is_users
    jax.config.update("jax_disable_most_optimizations", quickly)
    with pytest.MonkeyPatch.context() as patch:
        if quickly:
            patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True, scope="module")
def forget_between_modules():
    """Forget compiled programs between modules: they are on disk, and a worker stays small."""
    yield
    forget_programs()


@pytest.fixture(autouse=True)
def forget_when_large():
    """Forget compiled programs between tests too, where a worker has grown large."""
    yield
    if resident_bytes() > LARGE:
        forget_programs()


def forget_programs() -> None:
    """Drop what JAX has compiled, and give the memory back."""
    jax.clear_caches()
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # else freed memory stays with the process


def resident_bytes() -> int:
    """Return the memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def noise_dataset() -> Dataset:
    """Three episodes of noise with 20 steps each."""
    return draw_noise()
