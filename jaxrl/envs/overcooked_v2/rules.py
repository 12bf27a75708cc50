"""The events of a step: all cooks move; then they use what they face, one after the other; then pots cook.

The rules are those of JaxMARL's second version (Gessler et al. 2025, https://arxiv.org/abs/2503.17821). Also how an
episode starts.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.overcooked.rules import one_of, pick
from jaxrl.envs.overcooked_v2.layout import COOKED, PLATE, Kitchen, amount, ingredient

__all__ = ["INTERACT", "STAY", "Params", "Start", "State", "Work", "begin", "draw_recipe", "move", "tick", "work"]

STAY, INTERACT = 4, 5
_TURNS = np.array([2, 1, 3, 0], np.int32)  # the direction of each of the first four actions: right, down, left, up
_FULL = 3


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """The numbers that may vary."""

    delivery_reward: Any = 20.0
    """For the soup that is asked for."""
    wrong_delivery_reward: Any = 0.0
    """For another one."""
    button_cost: Any = 5.0
    """Of showing the recipe."""
    cook_time: Any = 20
    """Steps."""
    button_time: Any = 10
    """Steps for which a button shows the recipe."""
    max_steps: Any = 400
    ingredient_reward: Any = 3.0
    """Shaped reward for an ingredient in a pot that the recipe needs."""
    wrong_ingredient_reward: Any = 0.0
    """Shaped reward for another one."""
    cooking_reward: Any = 5.0
    """Shaped reward for starting the right soup by hand."""
    dish_reward: Any = 3.0
    """Shaped reward for a dish that is needed."""
    soup_reward: Any = 5.0
    """Shaped reward for the right soup taken out of a pot."""
    shaping: Any = 0.0
    """The weight of each cook's shaped reward in its reward."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """A kitchen of N cooks and C cells; things are numbers as in `layout`."""

    position: jax.Array
    """int32 `[N]`: each cook's cell, counted row by row."""
    direction: jax.Array
    """int32 `[N]`: up, down, right, left."""
    held: jax.Array
    """int32 `[N]`: what each cook holds."""
    items: jax.Array
    """int32 `[C]`: what is in each pot and on each counter."""
    timer: jax.Array
    """int32 `[C]`: steps for which a pot still cooks, or a button still shows the recipe."""
    recipe: jax.Array
    """int32: what is asked for."""
    order: jax.Array
    """int32 `[N, I]`: the ingredient in each place of a cook's observation."""
    correct: jax.Array
    """Bool: whether the right soup was served in the last step."""
    delivered: jax.Array
    """int32: the right soups served so far."""
    step: jax.Array


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of a cook's hands in a step."""

    reward: jax.Array
    """For the whole team."""
    shaped: jax.Array
    """The cook's own shaped reward."""
    correct: jax.Array
    """Bool: whether the right soup was served."""


def move(kitchen: Kitchen, state: State, action: jax.Array) -> State:
    """All cooks turn, and walk if nothing is in the way; cooks who would meet or swap places stay where they are."""
    n = len(kitchen.starts)
    walks = action < STAY
    direction = jnp.where(walks, jnp.asarray(_TURNS)[jnp.minimum(action, 3)], state.direction)
    target = state.position + jnp.asarray(kitchen.offsets)[direction]
    free = walks & jnp.asarray(kitchen.tiles == " ")[target]
    new, others = jnp.where(free, target, state.position), ~np.eye(n, dtype=bool)
    for _ in range(n):  # a cook who stays may be in another one's way
        meets = jnp.any((new[:, None] == new) & others, -1)
        new = jnp.where(meets, state.position, new)
    change = (new[:, None] == state.position) & (state.position[:, None] == new) & others
    position = jnp.where(jnp.any(change, -1), state.position, new)
    return dataclasses.replace(state, position=position, direction=direction)


def work(
    kitchen: Kitchen, by_hand: bool, state: State, i: int, acts: jax.Array, plates: jax.Array, params: Params
) -> tuple[State, Work]:
    """Cook `i` uses what is in front, if it `acts`.

    Args:
        kitchen: The layout.
        by_hand: Whether an empty hand starts a pot.
        state: As the cooks before left it.
        i: The cook's number.
        acts: Bool.
        plates: How many cooks held an empty plate before any of them did something.
        params: The parameters.
    """
    faced = state.position[i] + jnp.asarray(kitchen.offsets)[state.direction[i]]
    here = (np.arange(len(kitchen.tiles), dtype=np.int32) == faced) & acts
    counter, pot, button, hatch = (jnp.any(here & (kitchen.tiles == tile)) for tile in "WPLX")
    held, source = state.held[i], pick(here, kitchen.sources)
    item, time = pick(here, state.items), pick(here, state.timer)
    wanted = state.recipe | PLATE | COOKED

    empty, raw = held == 0, (held >> 2 != 0) & (held & PLATE == 0)
    idle = pot & (time == 0) & (item & COOKED == 0)
    takes, grabs = (source != 0) & empty, counter & (item != 0) & empty
    lifts = pot & (time == 0) & (item & COOKED != 0) & (held == PLATE)
    adds = idle & raw & (amount(item) < _FULL)
    drops = counter & (item == 0) & ~empty
    serves, presses = hatch & (held & COOKED != 0), button & empty & (item == 0)
    left = jnp.where(lifts | grabs, 0, jnp.where(adds | drops, item + held, item))
    hand = jnp.where(lifts | grabs, item + held, jnp.where(adds | drops | serves, 0, jnp.where(takes, source, held)))
    starts = idle & ((item != 0) & empty if by_hand else amount(left) == _FULL)

    correct = serves & (held == wanted)
    reward = jnp.where(serves, jnp.where(correct, params.delivery_reward, params.wrong_delivery_reward), 0.0)
    reward -= jnp.where(presses, params.button_cost, 0.0)
    bits = held | held << 1
    useful = item & bits < state.recipe & bits
    shaped = jnp.where(adds, jnp.where(useful, params.ingredient_reward, params.wrong_ingredient_reward), 0.0)
    shaped += jnp.where(lifts & (item + held == wanted), params.soup_reward, 0.0)
    if by_hand:
        shaped += jnp.where(starts & (item == state.recipe), params.cooking_reward, 0.0)
    filled = jnp.sum((kitchen.tiles == "P") & (state.items != 0))
    needed = (plates < filled) & ~jnp.any(state.items == PLATE)
    shaped += jnp.where(takes & (source == PLATE) & needed, params.dish_reward, 0.0)

    clock = jnp.where(starts, params.cook_time, jnp.where(presses, params.button_time, time))
    after = dataclasses.replace(
        state,
        held=jnp.where(np.arange(len(kitchen.starts)) == i, hand, state.held),
        items=jnp.where(here, left, state.items),
        timer=jnp.where(here, clock, state.timer),
    )
    return after, Work(reward, shaped, correct)


def tick(kitchen: Kitchen, state: State) -> State:
    """A step of all clocks; a soup whose time is over is cooked."""
    timer = jnp.maximum(state.timer - 1, 0)
    ready = (kitchen.tiles == "P") & (state.timer == 1)
    return dataclasses.replace(state, timer=timer, items=jnp.where(ready, state.items | COOKED, state.items))


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
    """The contents of pots and how long they cook: int32 `[C]` each, given draws `[6, C]`."""
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
