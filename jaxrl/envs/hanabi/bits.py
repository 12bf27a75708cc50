"""Many small sets of bits, written one after the other into words, then spread to an array of booleans.

A loop over words is short and regular; joining dozens of small arrays is what takes the time otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Field", "one_hot", "spread", "thermometer"]

Field = tuple[jax.Array, int]
"""Whole numbers `[…]`, whose lowest bits count, and how many of them: at most 32."""

_WORD = 32


def one_hot(number: jax.Array, width: int) -> Field:
    """Bit `number` alone; none if the number is negative."""
    return jnp.where(number >= 0, 1 << jnp.maximum(number, 0), 0), width


def thermometer(number: jax.Array, width: int) -> list[Field]:
    """The first `number` bits."""
    starts = range(0, width, 16)
    return [((1 << jnp.clip(number - first, 0, 16)) - 1, min(16, width - first)) for first in starts]


def spread(fields: Iterable[Field]) -> jax.Array:
    """The bits of all fields, in order and each from the lowest: bool `[…, D]`, D the sum of the widths."""
    words: list[jax.Array] = []
    end = 0
    for value, width in fields:
        value = value.astype(jnp.uint32)
        word, shift = divmod(end, _WORD)
        if word == len(words):
            words.append(value << shift)
        else:
            words[word] |= value << shift
        if shift + width > _WORD:
            words.append(value >> (_WORD - shift))
        end += width
    joined = jnp.stack(jnp.broadcast_arrays(*words), axis=-1)[..., None]
    bits = (joined >> np.arange(_WORD, dtype=np.uint32)) & 1
    return bits.reshape(*bits.shape[:-2], -1)[..., :end] != 0
