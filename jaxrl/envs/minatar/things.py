"""Things on the board of which there may be several in one cell, as arrays with a place for each."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrl.envs.minatar.game import COLUMNS, zeros

__all__ = ["Things", "moved", "nothing", "put", "rows"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Things:
    """K places, `[K]` each."""

    there: jax.Array
    """True if there is something in this place; if not, the rest means nothing."""
    x: jax.Array
    y: jax.Array
    right: jax.Array
    """True if it moves to the right; otherwise to the left."""


def nothing(places: int) -> Things:
    """Places without things."""
    return Things(zeros(places, dtype=bool), zeros(places), zeros(places), zeros(places, dtype=bool))


def put(things: Things, here: jax.Array, x: jax.Array, y: jax.Array, right: jax.Array) -> Things:
    """Something new in the place where `here`, bool `[K]`, is True, if there is one. The new one is a scalar each."""
    new = Things(jnp.ones((), bool), x, y, right)
    return jax.tree.map(lambda old, value: jnp.where(here, value, old), things, new)


def moved(things: Things, moves: jax.Array) -> Things:
    """Those that move, bool `[K]` or scalar, are one column further; what leaves the board is gone."""
    x = things.x + jnp.where(moves, jnp.where(things.right, 1, -1), 0)
    return dataclasses.replace(things, x=x, there=things.there & (x >= 0) & (x <= 9))


def rows(things: Things, there: jax.Array, behind: bool = False) -> jax.Array:
    """Rows of bits, `[10]`, with the cells of those things that are there, bool `[K]`, or the cells behind them."""
    bit = 1 << things.x
    if behind:
        bit = jnp.where(things.right, bit >> 1, (bit << 1) & 1023)
    return jnp.bitwise_or.reduce(jnp.where(there & (things.y == COLUMNS[:, None]), bit, 0), axis=1)
