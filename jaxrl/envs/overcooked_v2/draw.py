"""The second version as pictures and in letters: as the first, with recipes, indicators and any ingredients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxrl.envs.overcooked.draw import (
    BROTH,
    CHINA,
    Thing,
    center,
    cook,
    cooking,
    dishes,
    film,
    ground,
    hatch,
    heap,
    lettered,
    pot,
)
from jaxrl.envs.overcooked_v2.layout import COOKED, PLATE, TILES, Kitchen, kinds_in
from jaxrl.envs.overcooked_v2.rules import State
from jaxrl.render.scene import Circle, Rect, Scene, Shape, Tip

__all__ = ["board", "draw"]

_COLORS = ("#e8b93b", "#dc4a3d", "#4f9d4a", "#8e5bc0", "#e58ab4", "#3c8fd0", "#9c6b3f", "#30b5a6", "#d9d9d9", "#444444")
_CORNERS = ((-0.11, -0.06), (0.11, -0.06), (0.0, 0.12))


def draw(kitchen: Kitchen, states: State) -> Scene:
    """An episode: NumPy leaves `[F, …]`."""
    shapes: list[Shape] = []
    for cell, tile in enumerate(kitchen.tiles.tolist()):
        shapes += _tile(kitchen, cell, tile, states)
    for i in range(len(kitchen.starts)):
        names = np.array([_name(item) for item in states.held[:, i].tolist()])
        shapes += cook(kitchen, i, states, names, _item)
    return film("Overcooked V2", kitchen, states, shapes)


def _tile(kitchen: Kitchen, cell: int, tile: str, states: State) -> Iterator[Shape]:
    """A cell and what is in it."""
    x, y = center(kitchen, cell)
    name = f"ingredient {tile}" if tile.isdigit() else TILES[tile]
    tip, item, timer = Tip(name, {}), np.asarray(states.items[:, cell]), np.asarray(states.timer[:, cell])
    yield from ground(x, y, tile == " ", tip)
    if tile.isdigit():
        yield from heap(x, y, _COLORS[int(tile)], tip)
    elif tile == "B":
        yield from dishes(x, y, tip)
    elif tile == "X":
        yield from hatch(x, y, tip)
    elif tile == "P":
        yield from pot(x, y, timer, (item & COOKED) != 0, _ingredients(x, y, item), tip)
    elif tile in "RL":
        yield Rect(x=x - 0.36, y=y - 0.36, width=0.72, height=0.72, fill="#26364d", corner=0.08, tip=tip)
        shown = np.where((timer > 0) | (tile == "R"), states.recipe, 0)
        yield from _ingredients(x, y, shown)
        if tile == "L":
            yield Circle(x=x, y=y, radius=0.16, fill="#e5534b", alpha=(shown == 0).astype(float), tip=tip)
    elif tile == "W" and item.any():
        yield from _item(x, y, item, 1.0)


def _item(x: Any, y: Any, item: Any, size: float) -> Iterator[Shape]:
    """The thing that lies or is held there in each frame, `[F]`."""
    plate, cooked = ((item & bit != 0).astype(float) for bit in (PLATE, COOKED))
    yield Circle(x=x, y=y, radius=0.3 * size, fill=CHINA, stroke="#4b5563", stroke_width=0.03, alpha=plate)
    yield Circle(x=x, y=y, radius=0.22 * size, fill=BROTH, alpha=cooked)
    yield from _ingredients(x, y, np.asarray(item))


def _ingredients(x: Any, y: Any, item: np.ndarray) -> Iterator[Shape]:
    """Up to three ingredients: a dot each, in the order of their numbers."""
    each = [kinds_in(number) for number in item.tolist()]
    for place, (dx, dy) in enumerate(_CORNERS):
        there = np.array([len(kinds) > place for kinds in each])
        if there.any():
            fill = np.array([_COLORS[kinds[place]] if len(kinds) > place else "#000000" for kinds in each])
            yield Circle(x=x + dx, y=y + dy, radius=0.09, fill=fill, alpha=there.astype(float))


def _name(item: int) -> str:
    """A cook's thing in words."""
    if item & COOKED:
        return "a soup"
    kinds = kinds_in(item)
    return f"ingredient {kinds[0]}" if kinds else "a plate" if item else "nothing"


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
    """The contents of a pot."""
    return cooking(_raw(item), timer) if timer > 0 or item & COOKED else _raw(item)


def _thing(item: int) -> Thing:
    """The thing that lies or is held there."""
    if item & COOKED:
        return Thing("s", f"a soup of {_raw(item).words}")
    if item & PLATE:
        return Thing("b", "a plate")
    return Thing(_raw(item).sign, f"ingredient {_raw(item).words}" if item else "nothing")


def _raw(item: int) -> Thing:
    """The ingredients of an item: their numbers."""
    kinds = [str(kind) for kind in kinds_in(item)]
    return Thing("".join(kinds), ", ".join(kinds) or "empty")
