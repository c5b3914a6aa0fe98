"""How exactly the networks multiply; parameters, sums, losses and all else are always float32.

    float32    full products, also on devices where JAX's default is less exact
    tf32       both factors rounded to 10 bits of mantissa, forward and backward
    bfloat16   both factors rounded to 7 bits

A program has the precision it is traced under, so no equation mentions it. What is done once
(moments, mixtures, features, prompts) and what acts is float32. Accelerators have units for these
formats; a TPU has none for tf32, and sums three products of bfloat16 instead, which is at least as
exact. A CPU has none, and XLA ignores the request there; so on a CPU we round the factors. This
shows what the precision costs, and is not faster.

`backend` is the kind of device that a program is traced for: the one that JAX runs on, or the one
that `traced_for` names. So a machine without an accelerator can lower an accelerator's program.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

import jax
import jax.numpy as jnp
from jax.lax import DotAlgorithmPreset
from jaxtyping import Array, Float

EXACT = "float32"
UNITS = {"tf32": DotAlgorithmPreset.TF32_TF32_F32, "bfloat16": DotAlgorithmPreset.BF16_BF16_F32}
OF_TPU = UNITS | {"tf32": DotAlgorithmPreset.BF16_BF16_F32_X3}
BITS = {"tf32": 10, "bfloat16": 7}  # of mantissa that are kept
NAMES = (EXACT, *UNITS)
_chosen = ContextVar("products", default=EXACT)
_backend: ContextVar[str] = ContextVar("backend", default="")


def backend() -> str:
    """Return the kind of device that programs are traced for: cpu, gpu or tpu."""
    return _backend.get() or jax.default_backend()


@contextlib.contextmanager
def traced_for(name: str) -> Iterator[None]:
    """Trace programs as a process that runs on this kind of device does."""
    token = _backend.set(name)
    try:
        yield
    finally:
        _backend.reset(token)


def bind(function: Callable, name: str) -> Callable:
    """Return the function with its networks' products in this precision."""

    @functools.wraps(function)
    def bound(*args):
        token = _chosen.set(name)
        rest = "default" if backend() == "cpu" else "highest"  # both are float32
        try:
            with jax.default_matmul_precision(rest):
                return function(*args)
        finally:
            _chosen.reset(token)

    return bound


def product(
    inputs: Sequence[Float[Array, "*batch _"]], kernel: Float[Array, "n m"]
) -> Float[Array, "*batch m"]:
    """Return the concatenated inputs @ kernel, in the precision of the program around it."""
    batch = inputs[0].shape[:-1]
    rows = tuple(x.reshape(math.prod(batch), x.shape[-1]) for x in inputs)  # widths may be 0
    return _product(rows, kernel, _chosen.get()).reshape(*batch, kernel.shape[1])


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(inputs: tuple[Array, ...], kernel: Array, name: str) -> Array:
    return _multiply(jnp.concatenate(inputs, axis=1), kernel, 1, 0, name)


def _forward(inputs, kernel, name):
    return _product(inputs, kernel, name), (inputs, kernel)


def _backward(name, factors, slope):
    """Pull back to each input by itself: an input that needs no gradient costs no product."""
    inputs, kernel = factors
    kernels = jnp.split(kernel, list(itertools.accumulate(x.shape[1] for x in inputs))[:-1])
    pulled = tuple(_multiply(slope, part, 1, 1, name) for part in kernels)
    return pulled, _multiply(jnp.concatenate(inputs, axis=1), slope, 0, 0, name)


_product.defvjp(_forward, _backward)


def _multiply(a: Array, b: Array, axis_a: int, axis_b: int, name: str) -> Array:
    """Contract one axis of each factor."""
    dimensions = (((axis_a,), (axis_b,)), ((), ()))
    if name == EXACT:
        return jax.lax.dot_general(a, b, dimensions)
    if backend() == "cpu":
        return jax.lax.dot_general(_round(a, BITS[name]), _round(b, BITS[name]), dimensions)
    units = OF_TPU if backend() == "tpu" else UNITS
    return jax.lax.dot_general(a, b, dimensions, units[name])


def _round(x: Array, bits: int) -> Array:
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=bits)
