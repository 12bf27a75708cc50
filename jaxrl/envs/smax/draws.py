"""Many random numbers from one key a copy, laid out as the kernel wants them: rows first, batch last.

A counter-based generator such as threefry costs about a hundred operations a number, which for small battles was a
third of a step. Here a key gives 64 random bits, and an integer hash with full avalanche (the two-multiplication
"lowbias32" of Chris Wellons, https://nullprogram.com/blog/2018/07/31/) stretches them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["uniform_rows"]

_GOLDEN = np.uint32(0x9E3779B9)  # spreads neighbouring counters over all bits


def uniform_rows(key: jax.Array, rows: int) -> jax.Array:
    """Independent draws in [0, 1): float32 `[rows, …]` for keys `[…]`. Consumes `key`."""

    def seed(key: jax.Array) -> jax.Array:
        return jax.random.bits(key, (2,), jnp.uint32)

    for _ in range(key.ndim):
        seed = jax.vmap(seed)
    seeds = jnp.moveaxis(seed(key), -1, 0)
    counter = (jnp.arange(rows, dtype=jnp.uint32) * _GOLDEN).reshape((rows,) + (1,) * key.ndim)
    # A loop keeps XLA from fusing the hash into everything that reads a draw, and computing it anew each time.
    bits = jax.lax.fori_loop(0, 2, lambda i, bits: _mix(bits ^ seeds[i]), jnp.broadcast_to(counter, (rows, *key.shape)))
    return (bits >> 8).astype(jnp.float32) * np.float32(2.0**-24)


def _mix(x: jax.Array) -> jax.Array:
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)
