"""How an episode starts."""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.draws import uniform_rows
from jaxrl.envs.overcooked.rules import pick
from jaxrl.envs.overcooked.start import one_of
from jaxrl.envs.overcooked_v2.items import COOKED, PLATE, ingredient
from jaxrl.envs.overcooked_v2.layout import Kitchen
from jaxrl.envs.overcooked_v2.rules import Params, State

__all__ = ["Start", "begin", "draw_recipe"]

Start = Literal["fixed", "positions", "random"]
# Probabilities of nothing, a plate, an ingredient and a soup …
_IN_HANDS = np.array([0.5, 0.1, 0.25, 0.15])
_ON_COUNTERS = np.array([0.5, 0.1, 0.3, 0.1])
# … and of a pot that is empty, waits, cooks and is done.
_IN_POTS = np.array([0.4, 0.35, 0.15, 0.1])


def begin(
    kitchen: Kitchen, start: Start, by_hand: bool, mixed: tuple[int, ...], key: jax.Array, params: Params
) -> State:
    """A new episode. Consumes the rows of `key` from the second on.

    Args:
        kitchen: The layout.
        start: `"fixed"`: cooks at their places, looking up. `"positions"`: anywhere in the room where their place is,
            looking anywhere. `"random"`: also with anything in their hands, on the counters and in the pots.
        by_hand: Whether a pot with fewer than three ingredients can cook.
        mixed: The ingredients whose places in the observations are permuted, for each cook anew.
        key: For what is drawn.
        params: The parameters.
    """
    n, c, k = len(kitchen.starts), len(kitchen.tiles), len(mixed)
    draws = uniform_rows(key, 1 + 2 * n + n * k + 3 * n + 6 * c, first=1)
    at, facing, rest = draws[1 : 1 + n], draws[1 + n : 1 + 2 * n], draws[1 + 2 * n :]
    zeros, cells = jnp.zeros(n, jnp.int32), jnp.zeros(c, jnp.int32)
    order = jnp.broadcast_to(jnp.arange(kitchen.num_ingredients, dtype=jnp.int32), (n, kitchen.num_ingredients))
    if k:
        ranks = jnp.argsort(rest[: n * k].reshape(n, k), -1)
        order = order.at[:, np.array(mixed)].set(jnp.asarray(np.array(mixed, np.int32))[ranks])
    none = jnp.zeros((), jnp.int32)
    state = State(
        position=jnp.asarray(kitchen.starts),
        direction=zeros,
        held=zeros,
        items=cells,
        timer=cells,
        recipe=draw_recipe(kitchen, draws[0]),
        order=order,
        correct=jnp.zeros((), bool),
        delivered=none,
        step=none,
    )
    if start == "fixed":
        return state
    position, direction = _places(kitchen, at), (4 * facing).astype(jnp.int32)
    state = dataclasses.replace(state, position=position, direction=direction)
    if start == "positions":
        return state
    rest = rest[n * k :]
    held = _things(kitchen, _IN_HANDS, *rest[: 3 * n].reshape(3, n))
    items, timer = _pots(kitchen, by_hand, rest[3 * n :].reshape(6, c), params)
    lying = _things(kitchen, _ON_COUNTERS, *rest[3 * n :].reshape(6, c)[:3])
    items = jnp.where(kitchen.tiles == "W", lying, jnp.where(kitchen.tiles == "P", items, 0))
    return dataclasses.replace(state, held=held, items=items, timer=jnp.where(kitchen.tiles == "P", timer, 0))


def draw_recipe(kitchen: Kitchen, draw: jax.Array) -> jax.Array:
    """One of the kitchen's recipes, given draws in [0, 1)."""
    return jnp.asarray(kitchen.recipes)[(draw * len(kitchen.recipes)).astype(jnp.int32)]


def _places(kitchen: Kitchen, draws: jax.Array) -> jax.Array:
    """Different cells, each in the room of the cook's own place: int32 `[N]`, given `draws[N]`."""
    free, places = jnp.asarray(kitchen.tiles == " "), []
    for i, start in enumerate(kitchen.starts):
        taken = one_of(free & (kitchen.rooms == kitchen.rooms[start]), draws[i])
        places.append(pick(taken, np.arange(len(kitchen.tiles), dtype=np.int32)))
        free &= ~taken
    return jnp.stack(places)


def _things(
    kitchen: Kitchen, probabilities: np.ndarray, draw: jax.Array, which: jax.Array, soup: jax.Array
) -> jax.Array:
    """Nothing, a plate, an ingredient or a soup: int32 `[K]`, given three draws `[K]`."""
    raw = ingredient((which * kitchen.num_ingredients).astype(jnp.int32))
    kinds = [jnp.zeros_like(raw), jnp.full_like(raw, PLATE), raw, draw_recipe(kitchen, soup) | PLATE | COOKED]
    return _choose(probabilities, draw, kinds)


def _pots(kitchen: Kitchen, by_hand: bool, draws: jax.Array, params: Params) -> tuple[jax.Array, jax.Array]:
    """What is in pots and how long it cooks: int32 `[C]` each, given draws `[6, C]`."""
    each = ingredient((draws[:3] * kitchen.num_ingredients).astype(jnp.int32))
    count = 1 + (3 * draws[3]).astype(jnp.int32)
    some = jnp.sum(jnp.where(np.arange(3)[:, None] < count, each, 0), 0, jnp.int32)
    full = some if by_hand else jnp.sum(each, 0, jnp.int32)
    time = 1 + (params.cook_time * draws[4]).astype(jnp.int32)
    zero = jnp.zeros_like(some)
    items = _choose(_IN_POTS, draws[5], [zero, some, full, full | COOKED])
    return items, _choose(_IN_POTS, draws[5], [zero, zero, time, zero])


def _choose(probabilities: np.ndarray, draw: jax.Array, kinds: list[jax.Array]) -> jax.Array:
    """Of each row of draws one kind."""
    bounds = np.cumsum(probabilities)[:-1].astype(np.float32)
    return jnp.select([draw < bound for bound in bounds], kinds[:-1], kinds[-1])
