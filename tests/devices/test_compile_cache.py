"""Compiled programs are kept on disk, where the user did not say otherwise."""

import subprocess
import sys

SCRIPT = """
import jax, jax.numpy as jnp
from zsrl_jax.devices import compile_cache
compile_cache.keep()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((8, 8))).block_until_ready()
print(jax.config.jax_compilation_cache_dir)
"""


def run_script(**environment: str) -> str:
    words = [
        "env",
        "-u",
        "JAX_COMPILATION_CACHE_DIR",
        *(f"{k}={v}" for k, v in environment.items()),
    ]
    done = subprocess.run([*words, sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.strip()


def test_programs_land_in_the_users_cache(tmp_path):
    folder = run_script(XDG_CACHE_HOME=str(tmp_path))
    assert folder.startswith(str(tmp_path / "zsrl_jax" / "programs"))
    kept = sorted((tmp_path / "zsrl_jax").rglob("*-cache"))
    assert kept
    run_script(XDG_CACHE_HOME=str(tmp_path))
    assert sorted((tmp_path / "zsrl_jax").rglob("*-cache")) == kept  # found again, not made again


def test_jaxs_own_settings_win(tmp_path):
    own = str(tmp_path / "own")
    assert run_script(JAX_COMPILATION_CACHE_DIR=own, XDG_CACHE_HOME=str(tmp_path)) == own
    off = run_script(JAX_ENABLE_COMPILATION_CACHE="false", XDG_CACHE_HOME=str(tmp_path / "x"))
    assert off == "None" and not (tmp_path / "x").exists()
