"""Whether numbers are finite, on the device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["all_finite"]


def all_finite(tree: Any) -> jax.Array:
    """Whether all numbers in all leaves are finite, a bool; `jax.vmap` it over members `[M, …]`."""
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()
