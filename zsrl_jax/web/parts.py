"""What the page is made of beside our own files: MuJoCo's WebAssembly build and three.js.

Both come from the npm registry that npm is set up for on this machine, once: a tarball is checked
against the sha512 that its project published, and kept in the user's cache folder.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from zsrl_jax.errors import DataError, DiskError
from zsrl_jax.files.atomic import write_bytes

TRIES = 3
PAUSE = 2.0  # seconds before the second try; doubled after each
TIMEOUT = 60.0


class Part(NamedTuple):
    """A package of the npm registry: the files to take, and its published checksum."""

    name: str
    version: str
    sha512: str
    files: tuple[str, ...]
    licence: str  # its name; the text stands in the tarball, or is that of this project

    @property
    def tarball(self) -> str:
        """Return the name of its file."""
        return f"{self.name.rpartition('/')[2]}-{self.version}.tgz"

    def address(self, registry: str) -> str:
        """Return where a registry keeps it."""
        return f"{registry.rstrip('/')}/{self.name}/-/{self.tarball}"


MUJOCO = Part(
    "@mujoco/mujoco", "3.14.0",
    "WPUYidu4Fx8+uM4hQv80SOA0ifpWGrsNJguKs8JBV8SCTxjKQ2/rqsh880nUH0/Vwa8vuefghvCQkkoed3bkUg==",
    ("mujoco.js", "mujoco.wasm"), "Apache-2.0",
)  # fmt: skip
THREE = Part(
    "three", "0.187.0",
    "Qiu7R+Cmh8CstZsY1uJOSWnVlfo7ZtNLV7mF8Jltk3LB3AtDu9cRZlcnRKkAk8Y4z6KKw35z7Y7Urd7jWY8etA==",
    ("build/three.core.js", "build/three.module.js", "examples/jsm/controls/OrbitControls.js",
     "LICENSE"), "MIT",
)  # fmt: skip
PARTS = (MUJOCO, THREE)


def cache_folder() -> Path:
    """Return the folder where tarballs are kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "zsrl_jax" / "parts"


def read(part: Part) -> dict[str, bytes]:
    """Return the files of a part, by name; fetch its tarball if it is not there yet."""
    file = cache_folder() / part.tarball
    if not _is_right(file, part):
        _fetch(part, file)
    with tarfile.open(file) as archive:
        found = {}
        for name in part.files:
            member = archive.extractfile(f"package/{name}")
            assert member is not None  # the checksum is that of a tarball which has it
            found[name] = member.read()
        return found


def _is_right(file: Path, part: Part) -> bool:
    return file.is_file() and _digest(file.read_bytes()) == part.sha512


def _digest(data: bytes) -> str:
    return base64.b64encode(hashlib.sha512(data).digest()).decode()


def _fetch(part: Part, file: Path) -> None:
    """Download a tarball, check it, and keep it."""
    by_hand = (
        f"put the file '{part.tarball}' of the npm package {part.name} {part.version} "
        f"('npm pack {part.name}@{part.version}' makes it) into '{file.parent}'"
    )
    registry = find_registry()
    if registry is None:
        raise DataError(
            f"the page needs {part.name}, and no npm registry is known here: install npm, or set "
            f"npm_config_registry, or {by_hand}"
        )
    data = _download(part.address(registry), by_hand)
    if (found := _digest(data)) != part.sha512:
        raise DataError(
            f"what the npm registry gave for {part.name} {part.version} has the sha512 "
            f"{found[:12]}...: expected {part.sha512[:12]}...; {by_hand}"
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(f"cannot make the folder '{file.parent}': {error.strerror}") from error
    write_bytes(file, data)


def _download(address: str, by_hand: str) -> bytes:
    """Return what an address holds; try again after a pause."""
    pause = PAUSE
    for left in reversed(range(TRIES)):
        try:
            with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
                data: bytes = answer.read()
                return data
        except (urllib.error.URLError, OSError, ValueError) as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if not left or refused or isinstance(error, ValueError):
                reason = getattr(error, "reason", error)
                raise DataError(
                    f"the npm registry cannot be reached ({reason}): connect and try again, or "
                    f"{by_hand}"
                ) from error
            time.sleep(pause)
            pause *= 2
    raise AssertionError("every try returns or raises")


def find_registry() -> str | None:
    """Return the address of the npm registry: of the environment, of .npmrc, or of npm itself."""
    for name, value in os.environ.items():
        if name.lower() == "npm_config_registry" and value:
            return value
    for file in (Path(".npmrc"), Path.home() / ".npmrc"):
        if file.is_file():
            for line in file.read_text(errors="replace").splitlines():
                if found := re.fullmatch(r"\s*registry\s*=\s*(\S+)\s*", line):
                    return found[1].strip("\"'")
    if npm := shutil.which("npm"):
        call = [npm, "config", "get", "registry"]
        done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
        told = done.stdout.strip()
        if done.returncode == 0 and told.startswith(("http://", "https://", "file:")):
            return told
    return None
