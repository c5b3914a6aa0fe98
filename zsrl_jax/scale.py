"""Which scale a machine can bear: paper scale needs an accelerator."""

import jax

from zsrl_jax.errors import ConfigError, unknown

SCALES = ("paper", "laptop", "smoke")


def choose_scale(scale: str = "auto") -> tuple[str, str]:
    """Return the scale to use and why: `auto` looks for an accelerator."""
    if scale not in (*SCALES, "auto"):
        raise ConfigError(unknown("scale", scale, [*SCALES, "auto"]))
    if scale != "auto":
        return scale, "as asked"
    backend = jax.default_backend()
    if backend == "cpu":
        return "laptop", "auto: JAX sees no accelerator"
    return "paper", f"auto: JAX runs on {backend}"
