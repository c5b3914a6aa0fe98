"""What a device says it used, beside what the compiler said before."""

from typing import Any

import jax
import jax.numpy as jnp

from zsrl_jax.commands.bench._train_cases import SIZES, SPEC, STEPS
from zsrl_jax.seeds import seed_keys
from zsrl_jax.settings import fields
from zsrl_jax.training import memory
from zsrl_jax.training.blueprint import DataShape, programs
from zsrl_jax.training.memory import GB

SEEDS = 5  # of the paper


def _filled(shapes: Any) -> Any:
    """Return arrays of these shapes: ones, and keys."""

    def fill(x: Any) -> Any:
        is_key = jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
        return seed_keys(0, x.shape[0]) if is_key else jnp.ones(x.shape, x.dtype)

    return jax.tree.map(fill, shapes)


def tell(size: str, rows: int) -> str:
    """Run the policy's program once; set the device's own peak beside the compiler's figure."""
    config = fields.get_config("cheetah", "fb", "uniform")
    config.log_every, config.seeds = 20, SEEDS
    for section in (config.encoder, config.policy):
        section.update({name: value for name, value in SIZES[size].items() if name in section})
    shape = DataShape(max(rows // STEPS, 1), STEPS, SPEC)
    (policy,) = (program for program in programs(config, shape) if program.name == "policy")
    table = f"the compiler says {memory.by_compiler(policy).total / GB:.2f} GB for the policy"
    program, args = policy.jitted()
    jax.block_until_ready(program(*(_filled(arg) for arg in args)))
    used = jax.local_devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" not in used:
        return f"memory: {table}; the device does not tell what it uses"
    peak, limit = used["peak_bytes_in_use"] / GB, used.get("bytes_limit", 0) / GB
    return f"memory: {table}; the device used {peak:.2f} of {limit:.2f} GB at most"
