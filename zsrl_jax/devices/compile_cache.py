"""Compiled programs kept on disk: the second start of the same config need not compile again.

JAX keys every program by its own text, so nothing stale is ever used. The folder carries a
checksum of the processor, because a program compiled for one machine may not run on another that
shares the home folder. JAX writes a program in place, and never again: one that a kill or a full
disk cut short it would warn of, and compile anew, at every start. So those are deleted here.
JAX's own settings (JAX_COMPILATION_CACHE_DIR, JAX_ENABLE_COMPILATION_CACHE) win.
"""

import contextlib
import hashlib
import os
import platform
import time
import zlib
from pathlib import Path

import jax


def keep() -> None:
    """Keep compiled programs in the user's cache folder, unless JAX was told otherwise."""
    told = jax.config.values
    if told["jax_compilation_cache_dir"] is None and told["jax_enable_compilation_cache"]:
        with contextlib.suppress(OSError):  # a folder that cannot be written keeps nothing
            _drop_cut(_folder())
        jax.config.update("jax_compilation_cache_dir", str(_folder()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "zsrl_jax" / "programs" / _machine()


def _drop_cut(folder: Path) -> None:
    """Delete the programs that were cut short since the last look."""
    checked, now = folder / "checked", time.time()
    before = checked.stat().st_mtime if checked.exists() else 0.0
    for file in folder.glob("*-cache"):
        if file.stat().st_mtime >= before and not _is_whole(file.read_bytes()):
            file.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    checked.touch()
    os.utime(checked, (now, now))


def _is_whole(data: bytes) -> bool:
    """Tell whether a kept program ends as it should; of another compression than zlib: is there."""
    reader = zlib.decompressobj()
    try:
        reader.decompress(data)
    except zlib.error:
        return bool(data)
    return reader.eof


def _machine() -> str:
    """Return a checksum of what decides which instructions this processor runs."""
    text = platform.machine() + platform.processor()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        kept = ("model name", "flags", "Features")
        text += "".join(sorted({s for s in facts.read_text().split("\n") if s.startswith(kept)}))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
