"""How exactly the networks multiply; parameters, sums, losses and all else are float32 always.

    float32    products as they are written: also where JAX's default for the device is less
    tf32       both factors rounded to 10 bits behind the point, forward and backward
    bfloat16   both factors rounded to 7 bits

A program follows the name it is traced under, so no equation knows of it; what is done once
(moments, mixtures, features, prompts) and what acts is float32. An accelerator has units for these.
A CPU has none, and XLA passes over the request there: so on a CPU the factors are rounded by us,
which shows what the precision costs, and is no faster.
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import jax
from jax.lax import DotAlgorithmPreset
from jaxtyping import Array, Float

EXACT = "float32"
UNITS = {"tf32": DotAlgorithmPreset.TF32_TF32_F32, "bfloat16": DotAlgorithmPreset.BF16_BF16_F32}
BITS = {"tf32": 10, "bfloat16": 7}  # of the mantissa that are kept
NAMES = (EXACT, *UNITS)
_chosen = ContextVar("products", default=EXACT)


def bind(function: Callable, name: str) -> Callable:
    """Return the function with its networks' products of this precision."""

    @functools.wraps(function)
    def bound(*args):
        token = _chosen.set(name)
        rest = "default" if jax.default_backend() == "cpu" else "highest"  # both are float32
        try:
            with jax.default_matmul_precision(rest):
                return function(*args)
        finally:
            _chosen.reset(token)

    return bound


def product(x: Float[Array, "*batch n"], kernel: Float[Array, "n m"]) -> Float[Array, "*batch m"]:
    """Return x @ kernel, with the precision of the program around it."""
    name, dimensions = _chosen.get(), (((x.ndim - 1,), (0,)), ((), ()))
    if name == EXACT:
        return jax.lax.dot_general(x, kernel, dimensions)
    if jax.default_backend() == "cpu":
        return _rounded(x, kernel, dimensions, BITS[name])
    return jax.lax.dot_general(x, kernel, dimensions, UNITS[name])


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _rounded(a: Array, b: Array, dimensions: Any, bits: int) -> Array:
    return jax.lax.dot_general(_round(a, bits), _round(b, bits), dimensions)


def _forward(a, b, dimensions, bits):
    return _rounded(a, b, dimensions, bits), (_round(a, bits), _round(b, bits))


def _backward(dimensions, bits, factors, slope):
    _, pull = jax.vjp(lambda a, b: jax.lax.dot_general(a, b, dimensions), *factors)
    return pull(_round(slope, bits))


_rounded.defvjp(_forward, _backward)


def _round(x: Array, bits: int) -> Array:
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=bits)
