"""What cooks hold and what lies in a cell, as a whole number of bits, as in JaxMARL.

Bit 0 is a plate, bit 1 says that it is cooked, and then there are two bits for how many there are of each ingredient.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["COOKED", "PLATE", "amount", "ingredient", "kinds_in", "recipe"]

PLATE, COOKED = 1, 2


def ingredient(number: Any) -> Any:
    """One of the ingredient with that number."""
    return 4 << 2 * number


def recipe(numbers: Iterable[int]) -> int:
    """The ingredients with these numbers, together."""
    return sum(ingredient(number) for number in numbers)


def kinds_in(item: int) -> list[int]:
    """The numbers of its ingredients in order, each as often as the item contains it."""
    return [kind for kind in range(10) for _ in range(item >> 2 + 2 * kind & 3)]


def amount(item: jax.Array) -> jax.Array:
    """How many ingredients are in it, int32."""
    shifts = np.arange(2, 22, 2, dtype=np.int32)
    return jnp.sum((item[..., None] >> shifts) & 3, -1, jnp.int32)
