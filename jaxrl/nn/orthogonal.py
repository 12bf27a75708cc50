"""Orthogonal initial weights (Saxe et al. 2014, https://arxiv.org/abs/1312.6120), without LAPACK.

`flax.linen.initializers.orthogonal` calls LAPACK's QR. Under `vmap`, as in training several seeds, each call splits its
batch among XLA's CPU threads and waits; when as many calls run at once as there are threads, no thread is left to do
the work, and the program hangs (seen with jaxlib 0.10.2 on two cores).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["orthogonal"]


def orthogonal(scale: float = 1.0) -> Callable[..., jax.Array]:
    """An initialiser `(key, shape, dtype)` that returns `scale` times a uniformly random orthogonal matrix.

    All axes but the last are flattened into rows; rows or columns, whichever are fewer, are orthonormal.
    """

    def init(key: jax.Array, shape: Sequence[int], dtype: Any = jnp.float32) -> jax.Array:
        rows, columns = math.prod(shape[:-1]), shape[-1]
        normal = jax.random.normal(key, (max(rows, columns), min(rows, columns)), dtype)
        matrix = _gram_schmidt(normal)
        return float(scale) * (matrix if rows >= columns else matrix.T).reshape(shape)

    return init


def _gram_schmidt(matrix: jax.Array) -> jax.Array:
    """Make the columns of `matrix[R, C]`, R >= C, orthonormal one after another.

    Each is projected twice, which suffices for float32 (Giraud et al. 2005, https://doi.org/10.1007/s00211-005-0615-4).
    """

    def step(i: jax.Array, done: jax.Array) -> jax.Array:
        column = matrix[:, i]
        for _ in range(2):
            column = column - done @ (done.T @ column)
        return done.at[:, i].set(column / jnp.linalg.norm(column))

    return jax.lax.fori_loop(0, matrix.shape[1], step, jnp.zeros_like(matrix))
