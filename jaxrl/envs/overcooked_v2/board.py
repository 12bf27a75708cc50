"""The kitchen of the second version in letters, for terminals that show no pictures."""

from __future__ import annotations

import jax
import numpy as np

from jaxrl.envs.overcooked.board import Thing, cooking, lettered
from jaxrl.envs.overcooked_v2.items import COOKED, PLATE, kinds_in
from jaxrl.envs.overcooked_v2.layout import TILES, Kitchen
from jaxrl.envs.overcooked_v2.rules import State

__all__ = ["board"]


def board(kitchen: Kitchen, state: State) -> str:
    """One state as text, as in the first version; behind a sign, and a button while it shows it, is the recipe."""
    state = jax.tree.map(np.asarray, state)
    wanted, things = _raw(int(state.recipe)), {}
    for cell, (tile, item, timer) in enumerate(zip(kitchen.tiles.tolist(), state.items, state.timer, strict=True)):
        if tile == "P":
            things[cell] = _pot(int(item), int(timer))
        elif tile == "R" or (tile == "L" and timer > 0):
            things[cell] = wanted
        elif item:
            things[cell] = _thing(int(item))
    digits = {str(kind): f"ingredient {kind}" for kind in range(kitchen.num_ingredients)}
    return lettered(kitchen, state, things, [_thing(item) for item in state.held.tolist()], TILES | digits)


def _pot(item: int, timer: int) -> Thing:
    """What is in a pot."""
    return cooking(_raw(item), timer) if timer > 0 or item & COOKED else _raw(item)


def _thing(item: int) -> Thing:
    """What lies or is held there."""
    if item & COOKED:
        return Thing("s", f"a soup of {_raw(item).words}")
    if item & PLATE:
        return Thing("b", "a plate")
    return Thing(_raw(item).sign, f"ingredient {_raw(item).words}" if item else "nothing")


def _raw(item: int) -> Thing:
    """The ingredients of an item: their numbers."""
    kinds = [str(kind) for kind in kinds_in(item)]
    return Thing("".join(kinds), ", ".join(kinds) or "empty")
