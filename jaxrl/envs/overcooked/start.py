"""How an episode starts."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.draws import uniform_rows
from jaxrl.envs.overcooked.items import DISH, FULL, ONION, SOUP
from jaxrl.envs.overcooked.layout import Layout
from jaxrl.envs.overcooked.rules import Params, State, pick

__all__ = ["Start", "begin", "one_of"]

Start = Literal["fixed", "facing", "random"]


def begin(layout: Layout, start: Start, key: jax.Array, params: Params) -> State:
    """A new episode. Consumes `key`.

    Args:
        layout: The kitchen.
        start: `"fixed"`: cooks at their places, facing up, with empty hands. `"facing"`: facing anywhere. `"random"`:
            cooks anywhere, with anything in their hands, and pots in any state of an onion soup.
        key: For what is drawn.
        params: The parameters.
    """
    n, pots = len(layout.starts), len(layout.cells("P"))
    zeros = jnp.zeros(n, jnp.int32)
    position, direction, held = jnp.asarray(layout.starts), zeros, zeros
    contents, timer = jnp.zeros(pots, jnp.int32), jnp.full(pots, -1, jnp.int32)
    if start != "fixed":
        draws = uniform_rows(key, 3 * n + pots)
        direction = (4 * draws[:n]).astype(jnp.int32)
        if start == "random":
            position = _places(layout, draws[n : 2 * n])
            items = np.array([0, ONION, DISH, SOUP + FULL], np.int32)
            held = jnp.asarray(items)[(4 * draws[2 * n : 3 * n]).astype(jnp.int32)]
            # Up to three onions that wait, or a soup with any time left.
            status = (draws[3 * n :] * (params.cook_time + FULL + 1)).astype(jnp.int32)
            contents, timer = jnp.minimum(status, FULL), jnp.maximum(status - FULL, 0)
            timer = jnp.where(status < FULL, -1, timer)
    counters = jnp.zeros(len(layout.tiles), jnp.int32)
    none = jnp.zeros((), jnp.int32)
    return State(position, direction, held, counters, contents, timer, delivered=none, step=none)


def _places(layout: Layout, draws: jax.Array) -> jax.Array:
    """Different cells of the floor, int32 `[N]`, given `draws[N]`."""
    floor = layout.cells(" ")
    free, places = jnp.ones(len(floor), bool), []
    for i in range(len(layout.starts)):
        taken = one_of(free, draws[i])
        places.append(pick(taken, floor))
        free &= ~taken
    return jnp.stack(places)


def one_of(allowed: jax.Array, draw: jax.Array) -> jax.Array:
    """One of those that are allowed, all with the same probability: bool `[K]` from bool `[K]` and a draw in [0, 1)."""
    ranks = jnp.cumsum(allowed, dtype=jnp.int32) - 1
    return allowed & (ranks == (draw * (ranks[-1] + 1)).astype(jnp.int32))
