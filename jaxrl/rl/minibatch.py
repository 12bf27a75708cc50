"""Cutting a rollout into sequences and sequences into minibatches."""

from __future__ import annotations

from typing import Any

import jax

__all__ = ["shuffled_indices", "take_rows", "to_sequences"]


def to_sequences(tree: Any, length: int) -> Any:
    """Leaves `[T, B, ...]` as rows of sequences `[L, R, ...]` with L = `length` and R = B T / L."""

    def cut(leaf: jax.Array) -> jax.Array:
        num_steps, num_envs = leaf.shape[:2]
        chunks = leaf.reshape(num_steps // length, length, num_envs, *leaf.shape[2:])
        return chunks.swapaxes(0, 1).reshape(length, -1, *leaf.shape[2:])

    return jax.tree.map(cut, tree)


def shuffled_indices(key: jax.Array, num_rows: int, num_minibatches: int) -> jax.Array:
    """A random partition of the rows: int32 `[num_minibatches, num_rows / num_minibatches]`. Consumes `key`."""
    return jax.random.permutation(key, num_rows).reshape(num_minibatches, -1)


def take_rows(tree: Any, index: jax.Array, axis: int) -> Any:
    """The rows `index` of every leaf, counted along `axis`."""
    return jax.tree.map(lambda leaf: leaf.take(index, axis=axis), tree)
