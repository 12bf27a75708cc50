"""Shaped rewards of kitchens, which fade while an agent trains."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.fields import typed

__all__ = ["Shaping"]


@dataclasses.dataclass(frozen=True)
class Shaping:
    """The weight of shaped rewards in training. Evaluation is without them.

    Raises:
        ValueError: A number is out of its range.
    """

    begin: float
    """The weight at first."""
    until: float
    """The share of the training after which it is 0."""

    def __post_init__(self) -> None:
        for name, value in (("shaping", self.begin), ("shaping_until", self.until)):
            typed(name, float, value)
        if self.begin < 0 or not 0 < self.until <= 1:
            given = f"got {self.begin!r} and {self.until!r}"
            raise ValueError(f"shaping must be at least 0 and shaping_until above 0 and at most 1, {given}.")

    def params_at(self, params: Any, progress: jax.Array) -> Any:
        """`params` with the weight that belongs to `progress`, from 0 to 1."""
        weight = self.begin * jnp.maximum(1 - progress / self.until, 0)
        return dataclasses.replace(params, shaping=weight.astype(jnp.float32))
