"""Small building blocks of observations and rewards.

When each of A bodies is compared with each of B, the B are processed one at a time: XLA vectorises that, while it
processes small arrays of pairs number by number.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.mpe.physics import distance

__all__ = ["identities", "join", "leaving", "nearest", "others", "rows", "teams_of", "touches"]


def join(*parts: jax.Array | np.ndarray) -> jax.Array:
    """All numbers of all parts, in order, as one float32 vector."""
    return jnp.concatenate([jnp.ravel(part).astype(jnp.float32) for part in parts])


def others(array: jax.Array, i: int) -> jax.Array:
    """The rows of `array[N, …]` without row i."""
    return jnp.concatenate([array[:i], array[i + 1 :]])


def rows(*groups: jax.Array) -> jax.Array:
    """Rewards of groups of agents, float32 vectors, one after another: `[N]`."""
    return jnp.concatenate([jnp.atleast_1d(group) for group in groups])


def teams_of(*sizes: int) -> tuple[int, ...]:
    """The team of each agent, given how many agents in a row share one reward."""
    return tuple(team for team, size in enumerate(sizes) for _ in range(size))


def nearest(points: jax.Array, to: jax.Array) -> jax.Array:
    """The distance of each of `points[A, 2]` to the nearest of `to[B, 2]`: `[A]`."""
    return functools.reduce(jnp.minimum, [distance(points, to[i]) for i in range(len(to))])


def touches(points: jax.Array, sizes: jax.Array, to: jax.Array, to_sizes: jax.Array) -> jax.Array:
    """The number of bodies at `to[B, 2]` that each body at `points[A, 2]` overlaps: float32 `[A]`. Sizes are radii."""
    hits = [distance(points, to[i]) < sizes + to_sizes[i] for i in range(len(to))]
    return sum((hit.astype(jnp.float32) for hit in hits), jnp.zeros(len(points), jnp.float32))


def identities(count: int, low: float, high: float, channels: int | None = None, first: int = 0) -> np.ndarray:
    """Colours that distinguish landmarks, float32 `[count, channels]`: `high` in channel `first + i`, else `low`."""
    colors = np.full((count, count if channels is None else channels), low, np.float32)
    colors[np.arange(count), first + np.arange(count)] = high
    return colors


def leaving(position: jax.Array) -> jax.Array:
    """The penalty for leaving the square -1 … 1, summed over x and y: `[…]` for `position[…, 2]`.

    0 up to 0.9 from the centre, 10 (x - 0.9) up to 1, then min(exp(2 x - 2), 10).
    """
    x = jnp.abs(position)
    penalty = jnp.where(x < 1.0, jnp.maximum(10 * (x - 0.9), 0.0), jnp.minimum(jnp.exp(2 * x - 2), 10.0))
    return penalty[..., 0] + penalty[..., 1]
