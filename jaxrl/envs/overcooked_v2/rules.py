"""What happens in a step: all cooks move; then they use what they face, one after the other; then pots cook.

The rules are those of JaxMARL's second version (Gessler et al. 2025, https://arxiv.org/abs/2503.17821).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.overcooked.rules import pick
from jaxrl.envs.overcooked_v2.items import COOKED, PLATE, amount
from jaxrl.envs.overcooked_v2.layout import Kitchen

__all__ = ["INTERACT", "STAY", "Params", "State", "Work", "move", "tick", "work"]

STAY, INTERACT = 4, 5
_TURNS = np.array([2, 1, 3, 0], np.int32)  # the direction of each of the first four actions: right, down, left, up
_FULL = 3


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """What may vary."""

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
    """A kitchen of N cooks and C cells; things are numbers as in `items`."""

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
    """What a cook's hands do in a step."""

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
