"""The events of a step: cooks use what they face, one after the other; then all move; then pots cook.

The rules are those of overcooked-ai (Carroll et al. 2019, https://arxiv.org/abs/1910.05789). Also how an episode
starts, and the shaped rewards, which fade while an agent trains.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.config import typed
from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.overcooked.layout import DISH, FULL, NOTHING, ONION, SOUP, TOMATO, Layout, amount, as_contents

__all__ = [
    "DOWN",
    "INTERACT",
    "LEFT",
    "RIGHT",
    "STAY",
    "UP",
    "Params",
    "Shaping",
    "Start",
    "State",
    "Work",
    "begin",
    "cook",
    "move",
    "one_of",
    "pick",
    "work",
    "worth_a_dish",
]

UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)
_IDLE = -1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that may vary."""

    value: Any
    """float32 `[16]`: the reward for a soup by its contents."""
    cook_time: Any = 20
    """Steps."""
    max_steps: Any = 400
    ingredient_reward: Any = 3.0
    """Shaped reward for an ingredient in a pot."""
    dish_reward: Any = 3.0
    """Shaped reward for a dish that is needed."""
    soup_reward: Any = 5.0
    """Shaped reward for a soup taken out of a pot."""
    shaping: Any = 0.0
    """The weight of each cook's shaped reward in its reward."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A kitchen of N cooks, P pots and C cells; items and contents are numbers as in `layout`."""

    position: jax.Array
    """int32 `[N]`: each cook's cell, counted row by row."""
    direction: jax.Array
    """int32 `[N]`: up, down, right, left."""
    held: jax.Array
    """int32 `[N]`: the item in each cook's hands."""
    counters: jax.Array
    """int32 `[C]`: the item on each counter; nothing elsewhere."""
    contents: jax.Array
    """int32 `[P]`: what is in each pot."""
    timer: jax.Array
    """int32 `[P]`: steps until the soup is done, 0 if it is; -1 if it has not begun to cook."""
    delivered: jax.Array
    """int32: the soups served so far."""
    step: jax.Array


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of a cook's hands in a step."""

    reward: jax.Array
    """For the whole team."""
    shaped: jax.Array
    """The cook's own shaped reward."""
    served: jax.Array
    """Bool: whether a soup was served."""


def work(
    layout: Layout, by_hand: bool, state: State, i: int, acts: jax.Array, filled: jax.Array, params: Params
) -> tuple[State, Work]:
    """Cook `i` uses what is in front, if it `acts`.

    Args:
        layout: The kitchen.
        by_hand: Whether an empty hand starts a pot, with any contents.
        state: As the cooks before left it.
        i: The cook's number.
        acts: Bool.
        filled: How many pots were worth a dish before the step.
        params: The parameters.
    """
    faced = state.position[i] + jnp.asarray(layout.offsets)[state.direction[i]]
    # Elsewhere than in front of a cook that acts, nothing is true of any cell.
    here = (np.arange(len(layout.tiles), dtype=np.int32) == faced) & acts
    at_pot = here[layout.cells("P")]
    on_counter, at_serving = (jnp.any(here & (layout.tiles == tile)) for tile in "XS")
    held, source, lies = state.held[i], pick(here, layout.sources), pick(here, state.counters)

    takes = (held == NOTHING) & (source != NOTHING)
    swaps = on_counter & ((held == NOTHING) | (lies == NOTHING))
    idle = state.timer == _IDLE
    adds = at_pot & idle & (amount(state.contents) < FULL) & ((held == ONION) | (held == TOMATO))
    lifts = at_pot & (state.timer == 0) & (held == DISH)
    serves = at_serving & (held >= SOUP)

    needed = ~jnp.any(state.counters == DISH) & (jnp.sum(state.held == DISH) < filled)
    shaped = jnp.where(jnp.any(adds), params.ingredient_reward, 0.0)
    shaped += jnp.where(jnp.any(lifts), params.soup_reward, 0.0)
    shaped += jnp.where(takes & (source == DISH) & needed, params.dish_reward, 0.0)
    reward = jnp.where(serves, jnp.asarray(params.value)[held & 15], 0.0)

    soup = SOUP + pick(lifts, state.contents)
    hand = jnp.where(takes, source, jnp.where(swaps, lies, held))
    hand = jnp.where(jnp.any(lifts), soup, jnp.where(jnp.any(adds) | serves, NOTHING, hand))
    starts = at_pot & idle & (state.contents > 0) & (held == NOTHING) & by_hand
    after = dataclasses.replace(
        state,
        held=jnp.where(np.arange(len(layout.starts)) == i, hand, state.held),
        counters=jnp.where(here & swaps, held, state.counters),
        contents=jnp.where(lifts, 0, state.contents + jnp.where(adds, as_contents(held), 0)),
        timer=jnp.where(lifts, _IDLE, jnp.where(starts, params.cook_time, state.timer)),
        delivered=state.delivered + serves,
    )
    return after, Work(reward, shaped, serves)


def pick(where: jax.Array, values: Any) -> jax.Array:
    """The number that stands where, in the last axis, `where` is True; 0 if that is nowhere."""
    return jnp.sum(jnp.where(where, values, 0), -1, jnp.int32)


def worth_a_dish(state: State) -> jax.Array:
    """The number of pots that have something in them, and are not full without cooking."""
    return jnp.sum((state.contents > 0) & ~((state.timer == _IDLE) & (amount(state.contents) == FULL)))


def move(layout: Layout, state: State, action: jax.Array) -> State:
    """All cooks turn, and walk if nothing is in the way; if two would meet or change places, nobody walks."""
    walks = action < STAY
    direction = jnp.where(walks, action, state.direction)
    target = state.position + jnp.asarray(layout.offsets)[direction]
    free = walks & jnp.asarray(layout.tiles == " ")[target]
    new = jnp.where(free, target, state.position)
    others = ~np.eye(len(layout.starts), dtype=bool)
    meet = new[:, None] == new
    change = (new[:, None] == state.position) & (state.position[:, None] == new)
    position = jnp.where(jnp.any((meet | change) & others), state.position, new)
    return dataclasses.replace(state, position=position, direction=direction)


def cook(by_hand: bool, state: State, params: Params) -> State:
    """A full pot starts by itself, unless that is done `by_hand`; and what cooks is a step nearer to being done."""
    timer = state.timer
    if not by_hand:
        timer = jnp.where((timer == _IDLE) & (amount(state.contents) == FULL), params.cook_time, timer)
    return dataclasses.replace(state, timer=jnp.where(timer > 0, timer - 1, timer))


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
