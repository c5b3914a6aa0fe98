"""How much of a device's memory a run takes, told by the compiler before the run starts.

    in all = arguments + temporaries + results - results that take an argument's place

Arguments and results follow from shapes and are exact. Temporaries are the compiler's own figure
for the device it compiles for. On a CPU it compiles the accelerator's program (seeds in one batch)
for the CPU: an estimate, because a GPU's compiler joins other operations.
"""

import math
from typing import Any, NamedTuple

import jax
from ml_collections import ConfigDict

from zsrl_jax.devices import mesh, precision
from zsrl_jax.errors import ConfigError
from zsrl_jax.training import streaming
from zsrl_jax.training.blueprint import DataShape, Program, programs

GB = 1e9
TAKEN = 0.75  # of a GPU's memory that JAX takes, unless XLA_PYTHON_CLIENT_MEM_FRACTION says more


class Need(NamedTuple):
    """Bytes of one program on one device."""

    name: str
    arguments: int
    temporaries: int
    results: int
    reused: int  # by results, of the arguments
    flops: float = 0.0  # of one update of all seeds; 0 if it was not compiled

    @property
    def total(self) -> int:
        """Return all that must be there at once."""
        return self.arguments + self.temporaries + self.results - self.reused


def size_of(tree: Any) -> int:
    """Return the bytes of a tree of arrays or shapes; a key has eight."""
    is_key = lambda x: jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    return sum(
        math.prod(x.shape) * (8 if is_key(x) else x.dtype.itemsize) for x in jax.tree.leaves(tree)
    )


def by_shapes(program: Program) -> Need:
    """Return what a program needs at least: all but its temporaries; nothing is compiled."""
    reused = size_of([program.args[place] for place in program.donate])
    return Need(program.name, size_of(program.args), 0, size_of(program.result()), reused)


def by_compiler(program: Program) -> Need:
    """Compile a program, for the device that JAX runs on, and return what it needs."""
    if jax.default_backend() == "cpu":  # which has no such units, and refuses them
        program = program._replace(products=precision.EXACT)
    function, args = program.jitted()
    compiled = function.lower(*args).compile()
    found = compiled.memory_analysis()
    if jax.default_backend() == "cpu":
        flops = float((compiled.cost_analysis() or {}).get("flops", 0.0))
    else:
        flops = count_flops(program)
    least = by_shapes(program)
    if found is None:  # not every device's compiler tells
        return least._replace(flops=flops)
    return least._replace(  # arguments that are not read lie on the device too
        temporaries=found.temp_size_in_bytes,
        results=found.output_size_in_bytes,
        reused=found.alias_size_in_bytes,
        flops=flops,
    )


def count_flops(program: Program) -> float:
    """Return the flops of one call, by the host: an accelerator's compiler does not tell them."""
    with jax.default_device(streaming.host()):
        function, args = program._replace(products=precision.EXACT).jitted()
        return float(function.lower(*args).cost_analysis()["flops"])


def refuse_if_too_large(
    config: ConfigDict, shape: DataShape, limit: int | None, num_devices: int = 1
) -> None:
    """Refuse a run that cannot fit into so many bytes per device, and say what to change.

    Without a limit (a CPU) nothing is refused. Where the store stays on the host, so does all that
    is done once; updates need more than is counted then: the windows that are sent ahead.
    """
    if limit is None:
        return
    large = streaming.is_too_large(size_of(shape.store()), config.data.device_gib)
    hosted = large and "oracle" not in config  # whose data always lies on the device
    shape = shape._replace(episodes=1) if hosted else shape
    share, split = mesh.shape_of(config, num_devices)
    for measure in (by_shapes, by_compiler):  # what shapes refuse is not compiled
        for program in programs(config, shape, share):
            if hosted and not program.repeats:
                continue
            need = measure(program)
            if need.total > limit:
                raise ConfigError(told(need, program, limit))
        if split > 1:
            return  # the compiler's figure is for batches that are whole


def told(need: Need, program: Program, limit: float) -> str:
    """Return in one line what does not fit, and what to change."""
    learners, shared = program.num_learners(), size_of(program.shared())
    data: Any = next((arg for arg in program.args if hasattr(arg, "phi")), None)
    phi = need.results if need.name == "features" else size_of(getattr(data, "phi", ()))
    own, advice = (need.total - shared) / learners, []
    if phi and need.total - phi <= limit:
        advice.append("config.policy.feature_gib=0 (features are computed when they are read)")
    kind = "tasks x seeds" if any(hasattr(arg, "task") for arg in program.args) else "seeds"
    if (fewer := int((limit - shared) / own)) >= 1:
        wish = f"config.seeds={fewer}" if kind == "seeds" else f"{fewer} {kind}"
        advice.append(f"{wish} per device (more devices share the seeds)")
    if own > limit:
        advice.append("smaller networks or a smaller batch")
    elif shared + own > limit:
        far = "config.data.device_gib=0.001 (the data stays on the host)"
        advice.append(far if kind == "seeds" else "less data (config.data.max_episodes)")
    return (
        f"the program '{need.name}' of {learners} {kind} needs {need.total / GB:.1f} GB, and "
        f"the device has {limit / GB:.1f} GB for it: use {', or '.join(advice)}"
    )


def device_limit() -> int | None:
    """Return the bytes that a device of this process can hold; None where it does not tell."""
    device = jax.local_devices()[0]
    return None if device.platform == "cpu" else (device.memory_stats() or {}).get("bytes_limit")
