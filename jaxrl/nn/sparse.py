"""Sparse initial weights (Elsayed et al. 2024, https://arxiv.org/abs/2410.14606, section 3)."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["sparse_kernels", "sparse_uniform"]


def sparse_kernels(key: jax.Array, params: Any, sparsity: float) -> Any:
    """Parameters whose kernels are drawn anew by `sparse_uniform`; all others stay as they are. Consumes `key`."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    keys = jax.random.split(key, len(leaves))
    return structure.unflatten(
        sparse_uniform(k, leaf.shape, sparsity) if path[-1].key == "kernel" else leaf
        for k, (path, leaf) in zip(keys, leaves, strict=True)
    )


def sparse_uniform(key: jax.Array, shape: tuple[int, ...], sparsity: float) -> jax.Array:
    """A kernel `[..., features]` in which each feature depends on few inputs. Consumes `key`.

    Args:
        key: A random key.
        shape: All axes but the last are the I inputs of a feature (in a convolution, its places and channels).
        sparsity: The share of each feature's weights that are 0, rounded up to whole weights; at least one is not. The
            others are uniform between -1 / sqrt(I) and 1 / sqrt(I).
    """
    inputs, features = math.prod(shape[:-1]), shape[-1]
    zeros = min(math.ceil(sparsity * inputs - 1e-6), inputs - 1)  # 0.9 * 70 is a bit more than 63
    key_weights, key_order = jax.random.split(key)
    bound = 1.0 / math.sqrt(inputs)
    weights = jax.random.uniform(key_weights, (inputs, features), jnp.float32, -bound, bound)
    order = jax.random.uniform(key_order, (inputs, features), jnp.float32)
    rank = jnp.argsort(jnp.argsort(order, axis=0), axis=0)
    return jnp.where(rank < zeros, 0.0, weights).reshape(shape)
