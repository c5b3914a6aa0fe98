"""Copies of an environment, here or in a process of their own: send a call, receive the answer."""

import contextlib
import multiprocessing
import signal
import sys
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from zsrl_jax.envs.adapter import Adapter, Factory, adapt
from zsrl_jax.errors import DataError, ZsrlError

START = 60.0  # extra seconds for a process's first answer: it must import and build


def can_be_sent(factory: Factory) -> bool:
    """Tell whether a process of its own can import a factory; a lambda or a notebook's cannot."""
    main = sys.modules.get("__main__")
    if getattr(factory, "__module__", None) == "__main__" and not hasattr(main, "__file__"):
        return False
    try:
        ForkingPickler.dumps(factory)
    except Exception:  # pickling fails in several ways
        return False
    return True


class Local:
    """Some environments in this process."""

    def __init__(self, factory: Factory, count: int):
        self._envs: list[Adapter] = [adapt(factory) for _ in range(count)]
        self._last = [np.zeros(env.obs_dim) for env in self._envs]
        self._over = [False] * count

    def send(self, call: tuple[str, Any]) -> None:
        """Start a call: (name, argument)."""
        name, given = call
        self._answer = getattr(self, f"_{name}")(given)

    def receive(self) -> Any:
        """Return the answer of the last call."""
        return self._answer

    def close(self) -> None:
        """End."""
        self._envs = []

    def _sizes(self, _: None) -> tuple[int, int]:
        return self._envs[0].obs_dim, self._envs[0].action_dim

    def _reset(self, seeds: np.ndarray) -> np.ndarray:
        self._last = [env.reset(int(seed)) for env, seed in zip(self._envs, seeds, strict=True)]
        self._over = [False] * len(seeds)
        return np.stack(self._last)

    def _step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        reward = np.zeros(len(action))
        for i, env in enumerate(self._envs):
            if not self._over[i]:
                self._last[i], reward[i], self._over[i] = env.step(action[i])
        return np.stack(self._last), reward, np.array(self._over)


class Remote:
    """Some environments in a process of their own."""

    def __init__(self, factory: Factory, count: int, timeout: float = 60.0):
        self._timeout, self._patience = timeout, timeout + START
        # spawned, not forked: a fork of a process with JAX's threads can hang
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, factory, count), daemon=True)
        self._begin(factory)
        theirs.close()

    def _begin(self, factory: Factory) -> None:
        try:
            self._process.start()
        except Exception as error:  # pickling fails in several ways
            raise DataError(
                f"factory {factory!r} cannot be sent to a process ({error}): use a function of a "
                "module, or External(..., num_processes=0)"
            ) from None

    def send(self, call: tuple[str, Any]) -> None:
        """Start a call: (name, argument)."""
        with contextlib.suppress(BrokenPipeError):  # receive reports that the process is gone
            self._pipe.send(call)

    def receive(self) -> Any:
        """Return the answer of the last call."""
        if not self._pipe.poll(self._patience):
            self._process.kill()
            raise ZsrlError(
                f"an environment hangs: no answer after {self._patience:g} s; if its steps "
                "take that long, give a larger timeout"
            )
        self._patience = self._timeout
        try:
            worked, answer = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise ZsrlError(
                "a process of environments died: start the script under "
                "if __name__ == '__main__':, or give a lambda, which is stepped in this process"
            ) from None
        if not worked:
            raise ZsrlError(f"an environment failed: {answer}")
        return answer

    def close(self) -> None:
        """End."""
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.terminate()


def _serve(pipe: Connection, factory: Factory, count: int) -> None:
    """Answer calls until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe
    local: Local | None = None
    while True:
        try:
            call = pipe.recv()
        except EOFError:
            return
        try:
            local = local or Local(factory, count)
            local.send(call)
            pipe.send((True, local.receive()))
        except Exception as error:
            pipe.send((False, f"{type(error).__name__}: {error}"))
