"""What cooks hold and what lies on counters, as whole numbers.

A soup is `SOUP` plus its contents, and contents, also those of a pot, are the onions plus four times the tomatoes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["DISH", "FULL", "ITEMS", "NOTHING", "ONION", "ORDERS", "SOUP", "TOMATO", "amount", "as_contents", "value_of"]

NOTHING, DISH, ONION, TOMATO = range(4)
ITEMS = {NOTHING: "nothing", DISH: "a dish", ONION: "an onion", TOMATO: "a tomato"}
"""The names of the items other than soups."""
SOUP = 16
FULL = 3  # ingredients in a pot
ORDERS = "ooo"


def amount(contents: Any) -> Any:
    """How many ingredients they are."""
    return (contents & 3) + (contents >> 2)


def as_contents(item: Any) -> Any:
    """The contents that an onion or a tomato adds."""
    return 1 << 2 * (item - ONION)


def value_of(orders: str, reward: float) -> np.ndarray:
    """The reward for a soup by its contents, float32 `[16]`: that one for what is ordered, 0 for all else.

    Args:
        orders: Soups separated by commas, each up to three letters, `o` for an onion and `t` for a tomato.
        reward: That for each of them.

    Raises:
        ValueError: Something else stands there.
    """
    if not isinstance(orders, str):
        raise ValueError(f"orders must be soups such as 'ooo' or 'ooo,oot', got {orders!r}.")
    value = np.zeros(16, np.float32)
    for soup in orders.split(","):
        if not 1 <= len(soup) <= FULL or set(soup) - {"o", "t"}:
            raise ValueError(
                f"orders must be soups such as 'ooo' or 'ooo,oot', up to three letters each, got {soup!r}."
            )
        value[soup.count("o") + 4 * soup.count("t")] = reward
    return value
