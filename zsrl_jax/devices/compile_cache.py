"""Compiled programs kept on disk: a second start of the same config does not compile again.

JAX finds a program by its own text, so nothing stale is ever used. The folder's name is a checksum
of the processor, because a program compiled for one machine may not run on another that shares the
home folder. If a file was cut off by a kill, JAX warns and compiles the program again.
JAX's own settings (JAX_COMPILATION_CACHE_DIR, JAX_ENABLE_COMPILATION_CACHE) have priority.
"""

import hashlib
import os
import platform
from pathlib import Path

import jax


def keep() -> None:
    """Keep compiled programs in the user's cache folder, unless JAX has other settings."""
    told = jax.config.values
    if told["jax_compilation_cache_dir"] is None and told["jax_enable_compilation_cache"]:
        jax.config.update("jax_compilation_cache_dir", str(_folder()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "zsrl_jax" / "programs" / _machine()


def _machine() -> str:
    """Return a checksum of the processor's type and instruction set."""
    text = platform.machine() + platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        kept = ("model name", "flags", "Features")
        text += "".join(sorted({s for s in cpuinfo.read_text().split("\n") if s.startswith(kept)}))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
