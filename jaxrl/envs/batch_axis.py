"""The batch axis of kernels that step B environments at once: last inside, where it vectorises, and first outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["batch_first", "batch_last", "map_batch"]


def batch_last(tree: Any) -> Any:
    """Leaves `[B, …]` as `[…, B]`, the layout of the kernel."""
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), tree)


def batch_first(tree: Any) -> Any:
    """Leaves `[…, B]` as `[B, …]`, the layout outside the kernel."""
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), tree)


def map_batch(function: Callable[..., Any], batch_ndim: int) -> Callable[..., Any]:
    """`function` of one environment, mapped over arguments with `batch_ndim` trailing batch axes."""
    for _ in range(batch_ndim):
        function = jax.vmap(function, in_axes=-1, out_axes=-1)
    return function
