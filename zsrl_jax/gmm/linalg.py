"""Cholesky factors of covariances with escalating jitter; inverses; products by component.

    Sigma + floor 10^j I = L L^T  for the least j = 0, 1, ... that gives sound pivots
    [A 0; B C]^-1 = [A^-1 0; -C^-1 B A^-1 C^-1]

The inverse doubles its diagonal blocks by the second line until they fill the matrix. This takes a
few products of all components at once; a library's triangular solve does one small matrix at a
time.
"""

import math

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

HIGHEST = lax.Precision.HIGHEST
MAX_JITTERS = 9
BLOCK = 16


def invert(cholesky: Float[Array, "k d d"]) -> Float[Array, "k d d"]:
    """Return U = L^-T, so that x^T U is white."""
    num, dim = cholesky.shape[:2]
    size = BLOCK
    while size < dim:
        size *= 2
    # Padded with ones on the diagonal, which changes no other entry of the inverse.
    eye = jnp.eye(size, dtype=cholesky.dtype)
    matrix = jnp.broadcast_to(eye, (num, size, size)).at[:, :dim, :dim].set(cholesky)
    inverse = substitute(diagonal_blocks(matrix, BLOCK))
    for block in [BLOCK * 2**i for i in range((size // BLOCK).bit_length() - 1)]:
        below = diagonal_blocks(matrix, 2 * block)[:, :, block:, :block]
        first, second = inverse[:, ::2], inverse[:, 1::2]
        corner = jnp.matmul(below, first, precision=HIGHEST)
        corner = -jnp.matmul(second, corner, precision=HIGHEST)
        upper = jnp.concatenate([first, jnp.zeros_like(first)], axis=-1)
        inverse = jnp.concatenate([upper, jnp.concatenate([corner, second], axis=-1)], axis=-2)
    return inverse[:, 0, :dim, :dim].swapaxes(-1, -2)


def solve(upper: Float[Array, "k q q"], right: Float[Array, "k q d"]) -> Float[Array, "k q d"]:
    """Return (L L^T)^-1 times the right-hand sides, given U = L^-T."""
    return jnp.matmul(upper, jnp.matmul(upper.mT, right, precision=HIGHEST), precision=HIGHEST)


def diagonal_blocks(matrix: Float[Array, "k d d"], block: int) -> Float[Array, "k c b b"]:
    """Return the blocks of this size on the diagonal."""
    num, dim = matrix.shape[:2]
    cut = matrix.reshape(num, dim // block, block, dim // block, block)
    return jnp.diagonal(cut, axis1=1, axis2=3).transpose(0, 3, 1, 2)


def substitute(lower: Float[Array, "*k b b"]) -> Float[Array, "*k b b"]:
    """Invert small lower triangular matrices row by row, all at once."""
    size = lower.shape[-1]
    eye = jnp.broadcast_to(jnp.eye(size, dtype=lower.dtype), lower.shape)

    def row(i, inverse):
        known = jnp.sum(lower[..., i, :, None] * inverse, axis=-2)
        return inverse.at[..., i, :].set((eye[..., i, :] - known) / lower[..., i, i, None])

    # Rows not yet computed are zero, and add nothing.
    return lax.fori_loop(0, size, row, jnp.zeros_like(lower))


def log_constant(cholesky: Float[Array, "*k d d"]) -> Float[Array, "*k"]:
    """Compute -sum log diag L - d/2 log 2 pi."""
    diagonal = jnp.diagonal(cholesky, axis1=-2, axis2=-1)
    return -jnp.sum(jnp.log(diagonal), axis=-1) - 0.5 * diagonal.shape[-1] * math.log(2 * math.pi)


def product_by_component(
    component: Int[Array, " n"], noise: Float[Array, "n q"], factors: Float[Array, "k d q"]
) -> Float[Array, "n d"]:
    """Multiply each row by the factor of its component, without a copy of the factor per row."""

    def add(total, args):
        factor, index = args
        mine = jnp.where((component == index)[:, None], noise, 0.0)
        return total + jnp.matmul(mine, factor.T, precision=HIGHEST), None

    num, dim = factors.shape[:2]
    total = jnp.zeros((noise.shape[0], dim), noise.dtype)
    return lax.scan(add, total, (factors, jnp.arange(num)))[0]


def factorize(
    covariance: Float[Array, "k d d"], floor: Float[Array, ""]
) -> tuple[Float[Array, "k d d"], Int[Array, ""]]:
    """Factorise covariance + floor I; if that fails, use ten times the floor, and so on."""
    num, dim = covariance.shape[:2]
    eye = jnp.eye(dim, dtype=covariance.dtype)[None]

    def attempt(level: Int[Array, " k"]) -> tuple[Float[Array, "k d d"], Bool[Array, " k"]]:
        size = floor * 10.0 ** level.astype(covariance.dtype)
        factor = lax.linalg.cholesky(covariance + size[:, None, None] * eye, symmetrize_input=False)
        pivot = jnp.diagonal(factor, axis1=1, axis2=2) ** 2
        # Every true pivot is at least the floor: a smaller one (or NaN) is rounding error. All are
        # compared one by one, because XLA's minimum ignores NaN on a CPU.
        return factor, ~jnp.all(pivot > 0.5 * size[:, None], axis=1)

    def again(state):
        level, _, failed = state
        return jnp.any(failed) & (jnp.max(level) < MAX_JITTERS)

    def escalate(state):
        level, _, failed = state
        level = level + failed
        return level, *attempt(level)

    state = jnp.full(num, -1, jnp.int32), covariance, jnp.ones(num, bool)
    level, factor, failed = lax.while_loop(again, escalate, state)
    fallback = jnp.sqrt(jnp.diagonal(covariance, axis1=1, axis2=2) + floor)[:, :, None] * eye
    return jnp.where(failed[:, None, None], fallback, factor), jnp.sum(level, dtype=jnp.int32)
