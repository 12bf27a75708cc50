"""Cutting a rollout into sequences and sequences into minibatches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["shuffled_indices", "take_rows", "to_sequences"]


def to_sequences(tree: Any, length: int) -> Any:
    """Leaves `[T, B, ...]` as rows of sequences `[L, R, ...]` with L = `length` and R = B T / L."""

    def cut(leaf: jax.Array) -> jax.Array:
        num_steps, num_envs = leaf.shape[:2]
        chunks = leaf.reshape(num_steps // length, length, num_envs, *leaf.shape[2:])
        return chunks.swapaxes(0, 1).reshape(length, -1, *leaf.shape[2:])

    return jax.tree.map(cut, tree)


def shuffled_indices(keys: jax.Array, num_chunks: int, num_envs: int, num_minibatches: int) -> jax.Array:
    """A random partition of the rows `(chunk, environment)` that `to_sequences` makes: int32 `[num_minibatches, K]`.

    Each of the keys `[S]` shuffles the rows of its own B / S environments, and each minibatch takes equally many from
    every such shard. So a part of the shards, alone on a device, makes its part of the very same minibatches.
    Consumes `keys`.
    """
    envs = num_envs // keys.size

    def shuffle(key: jax.Array, shard: jax.Array) -> jax.Array:
        # One sort; `jax.random.permutation` sorts several times against ties, which are too rare to matter here.
        order = jnp.argsort(jax.random.bits(key, (num_chunks * envs,)))
        chunk, env = jnp.divmod(order, envs)
        return (chunk * num_envs + shard * envs + env).reshape(num_minibatches, -1)

    shuffled = jax.vmap(shuffle, out_axes=1)(keys, jnp.arange(keys.size))
    return shuffled.reshape(num_minibatches, -1)


def take_rows(tree: Any, index: jax.Array, axis: int) -> Any:
    """The rows `index` of every leaf, counted along `axis`."""
    return jax.tree.map(lambda leaf: leaf.take(index, axis=axis, mode="clip"), tree)
