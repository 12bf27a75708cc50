"""Agents and objects as physics takes them: a field for each number, with any batch axes last."""

from __future__ import annotations

from functools import reduce
from operator import add, or_
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.envs.hide_and_seek.geometry import Rect
from jaxrl.envs.hide_and_seek.world import Params

__all__ = ["Agents", "Objects", "any_of", "total"]


class Agents(NamedTuple):
    """The A agents, fields `[A, …]`."""

    x: jax.Array
    y: jax.Array
    vx: jax.Array
    vy: jax.Array
    cos: jax.Array
    sin: jax.Array
    spin: jax.Array
    height: jax.Array


class Objects(NamedTuple):
    """The O objects, fields `[O, …]`."""

    x: jax.Array
    y: jax.Array
    cos: jax.Array
    sin: jax.Array

    def rect(self, params: Params) -> Rect:
        """Their shapes."""
        size = jnp.asarray(params.object_size)
        return Rect(self.x, self.y, size[:, 0], size[:, 1], self.cos, self.sin)


def total(rows: Any) -> Any:
    """The sum over the first axis, row by row: XLA fuses that into one loop over the batch."""
    return reduce(add, [rows[i] for i in range(len(rows))])


def any_of(rows: Any) -> Any:
    """Whether any of the first axis is true, likewise."""
    return reduce(or_, [rows[i] for i in range(len(rows))])
