"""Notice at once that another process of a run has died, and say so in one line.

JAX notices too, but ends the process from its own threads, with lines of C++ and code 134. Here the
first process holds a connection to each other one. A process that ends as it should says so on it;
a connection that closes without a word, or is silent on the wire for SILENT seconds, is a death.
The first process tells the others which one has died before it ends itself.
Where no connection can be made (a closed port), nothing is watched, and JAX's way remains.
"""

import atexit
import contextlib
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

GRACE = 2.0  # seconds that the first process waits: the other may have ended both, by a signal
SILENT = 30  # seconds without an answer of the other machine; below JAX's own limit
MOST = 10.0  # seconds to connect
PLACE = "zsrl_jax/peers"
BYE = b"."
DEAD = b"#"  # and the number of the process that has died, in eight digits
CODE = 75  # the same command again goes on
_said = threading.Lock()
_others: dict[int, socket.socket] = {}  # the first process's connections, by number


def claim() -> bool:
    """Tell whether nobody has said yet why this process ends: a death is noticed in two places."""
    return _said.acquire(blocking=False)


def watch(index: int, num: int, coordinator: str, store: Any) -> None:
    """Connect to the first process, or to all others, and watch from threads."""
    if index == 0:
        server, mark = socket.create_server(("", 0), backlog=num), secrets.token_hex(16)
        store.key_value_set(PLACE, f"{server.getsockname()[1]} {mark}")
        threading.Thread(target=_accept, args=(server, num - 1, mark), daemon=True).start()
        return
    port, mark = store.blocking_key_value_get(PLACE, 60_000).split()
    host = coordinator.rpartition(":")[0].strip("[]")
    try:
        line = socket.create_connection((host, int(port)), MOST)
        line.sendall(f"{mark}{index:08d}".encode())
    except OSError:
        return
    _hold(line, _first_is_gone)


def _accept(server: socket.socket, num: int, mark: str) -> None:
    """Take the connections of the others: each begins with the run's mark and its number."""
    while num:
        line, _ = server.accept()
        line.settimeout(MOST)
        try:
            word = line.recv(len(mark) + 8, socket.MSG_WAITALL).decode()
        except (OSError, UnicodeDecodeError):
            word = ""
        if not word.startswith(mark):
            line.close()  # a stranger
            continue
        number, num = int(word[len(mark) :]), num - 1
        _others[number] = line
        _hold(line, lambda word, number=number: _lost(number))


def _first_is_gone(word: bytes) -> None:
    """Say who is gone: the first process, or the one that it has named."""
    named = word.removeprefix(DEAD)
    who = f"process {int(named)}" if word.startswith(DEAD) and named else "the first process"
    _leave(f"{who} of the run is gone")


def _lost(number: int) -> None:
    time.sleep(GRACE)
    for other, line in list(_others.items()):  # another thread may add one
        if other != number:
            with contextlib.suppress(OSError):  # it has gone as well
                line.sendall(DEAD + f"{number:08d}".encode())
    _leave(f"process {number} of the run is gone")


def _leave(what: str) -> None:
    if not claim():
        return  # the main thread has said it, and ends the process
    told = f"\nerror: {what}: the same command again, in all of them, goes on from the last save\n"
    try:
        sys.stdout.flush()
        os.write(2, told.encode())
    finally:  # also where nobody reads it any more
        os._exit(CODE)


def _hold(line: socket.socket, on_death: Callable[[bytes], None]) -> None:
    """Say goodbye on a connection when this process ends; watch it from a thread until then."""
    line.settimeout(None)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", SILENT // 3), ("TCP_KEEPINTVL", SILENT // 6),
                        ("TCP_KEEPCNT", 4)):  # fmt: skip
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    atexit.register(_goodbye, line)
    threading.Thread(target=_listen, args=(line, on_death), daemon=True).start()


def _goodbye(line: socket.socket) -> None:
    try:
        line.sendall(BYE)
    except OSError:
        return  # the other one has gone before


def _listen(line: socket.socket, on_death: Callable[[bytes], None]) -> None:
    try:
        word = line.recv(1)
        if word == DEAD:
            word += line.recv(8, socket.MSG_WAITALL)
    except OSError:
        word = b""
    if word != BYE:
        on_death(word)
