"""Cut a rollout into sequences, and sequences into minibatches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["in_parts", "shuffled_indices", "take_rows", "to_sequences"]


def to_sequences(tree: Any, length: int) -> Any:
    """Reshape leaves `[T, B, ...]` into sequences `[L, R, ...]` with L = `length` and R = B T / L."""

    def cut(leaf: jax.Array) -> jax.Array:
        num_steps, num_envs = leaf.shape[:2]
        chunks = leaf.reshape(num_steps // length, length, num_envs, *leaf.shape[2:])
        return chunks.swapaxes(0, 1).reshape(length, -1, *leaf.shape[2:])

    return jax.tree.map(cut, tree)


def shuffled_indices(keys: jax.Array, num_envs: int, num_minibatches: int) -> jax.Array:
    """A random partition of the rows `(chunk, environment)` that `to_sequences` makes: int32 `[num_minibatches, K]`.

    Args:
        keys: `[R / S, S]`, one for each of the R rows. Each shard shuffles the rows of its own B / S environments, and
            each minibatch takes equally many from every shard. So a device with only some of the shards produces its
            part of exactly the same minibatches. Consumed (JAX's check can't see it).
        num_envs: B.
        num_minibatches: The number of minibatches.
    """
    rows, shards = keys.shape
    envs = num_envs // shards
    # Keys are themselves random numbers, so sorting them shuffles without drawing more. One sort is enough:
    # `jax.random.permutation` sorts several times to break ties, which are too rare to matter here.
    order = jnp.argsort(jax.random.key_data(keys)[..., 0], axis=0)
    chunk = jax.lax.div(order, envs)
    index = chunk * (num_envs - envs) + order + envs * jnp.arange(shards)  # chunk * B + shard * B / S + environment
    return index.reshape(num_minibatches, rows // num_minibatches * shards)


def take_rows(tree: Any, index: jax.Array, axis: int) -> Any:
    """The rows `index` of every leaf, counted along `axis`."""
    return jax.tree.map(lambda leaf: leaf.take(index, axis=axis, mode="clip"), tree)


def in_parts(tree: Any, count: int) -> Any:
    """Sequences `[L, R, ...]` in `count` equal parts: `[count, L, R / count, ...]`."""

    def cut(leaf: jax.Array) -> jax.Array:
        return leaf.reshape(leaf.shape[0], count, -1, *leaf.shape[2:]).swapaxes(0, 1)

    return jax.tree.map(cut, tree)
