"""What in a program would not run, or not run well, on a device that this machine does not have."""

import re

from jax import export

# Calls that the runtime of a device implements itself, for programs of ours.
KNOWN = {
    "cuda": {"cusolver_potrf_ffi", "cusolver_syevd_ffi", "cusolver_geqrf_ffi",
             "cusolver_orgqr_ffi"},
    "tpu": {"Eigh", "Qr", "ProductOfElementaryHouseholderReflectors"},
}  # fmt: skip
SHARDING = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
BACKENDS = {"cuda": "gpu", "tpu": "tpu"}
HOST = ("callback", "debug_print", "infeed", "outfeed")


def callbacks(jaxpr) -> set[str]:
    """Name the primitives of a jaxpr, and of those in it, that call back to the host."""
    found = set()
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        found |= {name} if any(word in name for word in HOST) else set()
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    found |= callbacks(inner)
    return found


def lowered(function, args, *platforms: str) -> str:
    """Return the text of a jitted function, lowered for devices that need not be here."""
    return export.export(function, platforms=platforms)(*args).mlir_module()


def faults(name: str, function, args, *platforms: str) -> list[str]:
    """Say what is wrong with a program on some platforms; nothing, if it is right."""
    if called := callbacks(function.trace(*args).jaxpr.jaxpr):
        return [f"{name}: calls back to the host ({', '.join(sorted(called))})"]
    text = lowered(function, args, *platforms)
    allowed = SHARDING.union(*(KNOWN[platform] for platform in platforms))
    strange = set(re.findall(r"custom_call @\"?([\w.$]+)", text)) - allowed
    found = [f"{name}: the custom call {call} is not known there" for call in sorted(strange)]
    if re.search(r"tensor<(\w+x)*(f64|complex<f64>)>", text):
        found.append(f"{name}: computes in float64")
    return found
