"""The kitchen in letters, for terminals that show no pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.envs.overcooked.items import DISH, ITEMS, NOTHING, ONION, SOUP, TOMATO
from jaxrl.envs.overcooked.layout import TILES, Layout
from jaxrl.envs.overcooked.rules import State

__all__ = ["Thing", "board", "cooking", "lettered"]

_HEADINGS = "^v><"  # up, down, right, left
_SIGNS = {NOTHING: "", DISH: "d", ONION: "o", TOMATO: "t"}


class Thing(NamedTuple):
    """What is in a cell or in hands."""

    sign: str
    """Up to three characters, or two in hands."""
    words: str


def board(layout: Layout, state: State) -> str:
    """One state as text: a line per row and one that explains the characters.

    A cell is the character of its layout, or a cook's number and where it looks; behind it is what lies or is held
    there, and what is in a pot. To the right of a row the same stands in words.
    """
    state = jax.tree.map(np.asarray, state)
    things = {cell: _thing(item) for cell, item in enumerate(state.counters.tolist()) if item}
    pots = zip(layout.cells("P").tolist(), state.contents.tolist(), state.timer.tolist(), strict=True)
    for cell, contents, timer in pots:
        inside = Thing("o" * (contents & 3) + "t" * (contents >> 2), _ingredients(contents))
        things[cell] = cooking(inside, timer) if timer >= 0 else inside
    return lettered(layout, state, things, [_thing(item) for item in state.held.tolist()], TILES)


def cooking(inside: Thing, steps: int) -> Thing:
    """A pot that cooks for some steps more, or, after 0 of them, is done."""
    return Thing("~", f"{inside.words}, steps left {steps}") if steps else Thing("!", f"{inside.words}, done")


def lettered(
    layout: Layout, state: Any, things: Mapping[int, Thing], held: Sequence[Thing], tiles: Mapping[str, str]
) -> str:
    """The rows of a kitchen of C cells and N cooks, and a line that explains the characters.

    Args:
        layout: The kitchen.
        state: One state, NumPy leaves, with `position` and `direction`, `[N]` each.
        things: What is in some of the cells, by their numbers, 0 to C - 1.
        held: What each cook holds, `[N]`.
        tiles: What the characters of the layout mean.
    """
    cells = ["." if tile == " " else tile for tile in layout.tiles.tolist()]
    notes = [""] * len(cells)
    for cell, thing in things.items():
        notes[cell] = f"{tiles[cells[cell]]}: {thing.words}"
        cells[cell] += thing.sign
    cooks = zip(state.position.tolist(), state.direction.tolist(), held, strict=True)
    for number, (cell, direction, thing) in enumerate(cooks):
        notes[cell] = f"agent_{number} holds {thing.words}"
        cells[cell] = f"{number}{_HEADINGS[direction]}{thing.sign}"
    lines = []
    for first in range(0, len(cells), layout.width):
        row = slice(first, first + layout.width)
        drawn, told = "".join(f"{cell:5}" for cell in cells[row]), "; ".join(filter(None, notes[row]))
        lines.append(f"  {drawn} {told}".rstrip())
    known = [f"{'.' if tile == ' ' else tile} {meaning}" for tile, meaning in tiles.items() if tile in layout.tiles]
    return "\n".join([*lines, f"  {', '.join(known)}"])


def _thing(item: int) -> Thing:
    """What lies or is held there."""
    return Thing("s", f"a soup of {_ingredients(item & 15)}") if item >= SOUP else Thing(_SIGNS[item], ITEMS[item])


def _ingredients(contents: int) -> str:
    """Contents in words, such as `2 onions and 1 tomato`."""
    onions, tomatoes = contents & 3, contents >> 2
    parts = [f"{onions} onion{'s' * (onions > 1)}"] * (onions > 0)
    parts += [f"{tomatoes} tomato{'es' * (tomatoes > 1)}"] * (tomatoes > 0)
    return " and ".join(parts) or "empty"
