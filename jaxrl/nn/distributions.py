"""Distributions over actions: distrax, imported here and nowhere else."""

from __future__ import annotations

import distrax
import jax
import jax.numpy as jnp

__all__ = ["Categorical", "categorical"]

Categorical = distrax.Categorical

_NEVER = -1e9  # a finite logit: its probability is exactly 0 in float32, and gradients stay finite


def categorical(logits: jax.Array, mask: jax.Array | None = None) -> Categorical:
    """A distribution over A actions from `logits[..., A]`; actions where `mask[..., A]` is False have probability 0."""
    return distrax.Categorical(logits=logits if mask is None else jnp.where(mask, logits, _NEVER))
