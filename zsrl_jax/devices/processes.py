"""Several processes that train one run: how they meet, who writes, and what they agree on.

Every process runs the same command and holds the devices it sees; the mesh spans them all. Only
the first process holds the run folder's lock, writes, evaluates and prints. The others get its
results and its errors (`first`), and a signal to any process stops all (`check`). If a process
dies, the others end at once (`peers`), at the latest after HEARTBEAT seconds; the same command
again, in all of them, goes on from the last save. With one process, each function here does the
obvious.
"""

import contextlib
import itertools
import json
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax._src.distributed import global_state  # the only access to its key-value store
from jax.experimental import multihost_utils

from zsrl_jax import errors
from zsrl_jax.devices import peers, signals

HEARTBEAT = 60  # seconds without a sign of life, after which a process counts as dead
MEETING = 300  # seconds that processes wait for each other at the start
LOOK = 0.1  # seconds between two looks for a message of the first process
LOST = ("Gloo", "NCCL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "coordination")
EVERYWHERE = "raised in every process of the run"
_words = itertools.count()


def join(coordinator: str | None, num_processes: int | None, process_id: int | None) -> None:
    """Connect to the other processes, given by flags or by SLURM, if there are any.

    This must come before anything asks JAX for its devices.
    """
    given = (coordinator, num_processes, process_id)
    if given == (None, None, None):
        if int(os.environ.get("SLURM_STEP_NUM_TASKS", 1)) == 1 or "SLURM_PROCID" not in os.environ:
            return
    elif coordinator is None or num_processes is None or process_id is None:
        raise errors.ConfigError(
            "several processes need all of --coordinator=HOST:PORT, --num_processes and "
            "--process_id, or none of them and SLURM's srun"
        )
    elif not 0 <= process_id < num_processes or ":" not in coordinator:
        raise errors.ConfigError(
            f"--coordinator={coordinator} --num_processes={num_processes} --process_id="
            f"{process_id}: expected HOST:PORT, and ids from 0 below the number of processes"
        )
    jax.config.update("jax_enable_preemption_service", False)  # we handle signals ourselves
    try:
        jax.distributed.initialize(
            *given,
            cluster_detection_method="slurm" if coordinator is None else "deactivate",
            initialization_timeout=MEETING,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=HEARTBEAT,
        )
    except (RuntimeError, ValueError) as error:
        global_state.client = None  # it is half made; without it this process counts as alone
        place, told = coordinator or "the first task's node", str(error).splitlines()[0]
        raise errors.ConfigError(f"the processes did not meet at {place}: {told}") from error
    multihost_utils.process_allgather(np.asarray(0))  # connects them while all are present
    state = global_state
    peers.watch(state.process_id, state.num_processes, str(state.coordinator_address), _store())
    if not is_first():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)


def several() -> bool:
    """Tell whether this process is one of several."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def is_first() -> bool:
    """Tell whether this process is the one that writes and prints."""
    return not several() or jax.process_index() == 0


def first(function: Callable[[], Any]) -> Any:
    """Run a function in the first process only; all get its result (as JSON) or its error."""
    if not several():
        return function()
    place = f"zsrl_jax/{next(_words)}"
    if not is_first():
        return _take(json.loads(_wait(place)))
    word: dict[str, Any] = {}
    try:
        word["result"] = function()
        return word["result"]
    except BaseException as error:
        word = {"error": type(error).__name__, "text": str(error)}
        word["errno"] = getattr(error, "errno", None)
        raise _shared(error) from None
    finally:
        _store().key_value_set(place, json.dumps(word))


def _take(word: dict[str, Any]) -> Any:
    """Return the first process's result, or raise its error."""
    if "error" not in word:
        return word["result"]
    if word["errno"] is not None:
        raise _shared(OSError(word["errno"], word["text"]))
    kinds = {**vars(errors), "Stopped": signals.Stopped, "KeyboardInterrupt": KeyboardInterrupt}
    kind = kinds.get(word["error"], errors.ZsrlError)
    raise _shared(kind.__new__(kind, word["text"]))  # some take more arguments than the text


def _shared(error: BaseException) -> BaseException:
    error.add_note(EVERYWHERE)
    return error


def is_shared(error: BaseException) -> bool:
    """Tell whether an error is raised in all processes, not only in this one."""
    return EVERYWHERE in getattr(error, "__notes__", ())


def _wait(place: str) -> str:
    """Wait for a message of the first process without a limit; signals are handled afterwards."""
    while True:
        try:
            return _store().key_value_try_get(place)
        except jax.errors.JaxRuntimeError as error:
            if "NOT_FOUND" not in str(error):
                raise
        time.sleep(LOOK)


def _store() -> Any:
    return global_state.client


def in_turn(function: Callable[[], Any]) -> Any:
    """Run a function in every process, first in the first one."""
    if not several():
        return function()
    kept: list[Any] = []
    first(lambda: kept.append(function()))
    return kept[0] if kept else function()


@contextlib.contextmanager
def leading(context: contextlib.AbstractContextManager) -> Iterator[None]:
    """Enter a context in the first process only; its error is raised in all."""
    with contextlib.ExitStack() as stack:
        first(lambda: stack.enter_context(context))
        yield


def agree(value: str, error: errors.ZsrlError) -> None:
    """Raise an error in all processes unless all have the same value; all must call it."""
    if several():
        marks = multihost_utils.process_allgather(np.uint32(zlib.crc32(value.encode())))
        if len(set(marks.tolist())) > 1:
            raise _shared(error)


def check() -> None:
    """Raise Stopped if any process got a signal; all must call it at the same point."""
    if not several():
        signals.check()
        return
    came = multihost_utils.process_allgather(np.asarray(signals.noted()))
    if came.any():
        raise _shared(signals.Stopped(signal.Signals(int(came.max())).name))


def is_lost(error: BaseException) -> bool:
    """Tell whether an error says that another process is gone."""
    is_runtime = isinstance(error, jax.errors.JaxRuntimeError | ValueError)
    return is_runtime and several() and any(word in str(error) for word in LOST)
