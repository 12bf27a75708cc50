"""Kitchens of the second version as text, in JaxMARL's characters."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from jaxrl.envs.overcooked.layout import Layout, read_rows
from jaxrl.envs.overcooked_v2.items import PLATE, ingredient, recipe
from jaxrl.envs.overcooked_v2.kitchens import KITCHENS
from jaxrl.errors import UnknownNameError, nearest

__all__ = ["INGREDIENTS", "TILES", "Kitchen", "find_kitchen", "parse_kitchen"]

TILES = {
    "W": "counter",
    "X": "serving",
    "P": "pot",
    "R": "recipe indicator",
    "L": "recipe button",
    "B": "dishes",
    " ": "floor",
    "A": "cook",
}
"""What the characters mean, besides the digits, which are ingredients; the first six in the order of the channels."""

INGREDIENTS = "0123456789"
"""The characters of the piles of ingredients."""


@dataclasses.dataclass(frozen=True)
class Kitchen(Layout):
    """A kitchen with the recipes that it may ask for."""

    num_ingredients: int
    recipes: np.ndarray
    """int32 `[R]`, three ingredients each, as `items` packs them."""

    @property
    def sources(self) -> np.ndarray:
        """The item that an empty hand gets at each cell, `int32[height * width]`, 0 for none."""
        gives = [
            PLATE if tile == "B" else ingredient(int(tile)) if tile.isdigit() else 0 for tile in self.tiles.tolist()
        ]
        return np.array(gives, np.int32)

    @property
    def rooms(self) -> np.ndarray:
        """The same number for all cells of the floor between which a cook can walk, -1 elsewhere: `int32[C]`."""
        rooms = np.where(self.tiles == " ", np.arange(len(self.tiles)), -1)
        for _ in range(len(self.tiles)):
            for cell in self.cells(" "):
                around = rooms[cell + self.offsets]
                rooms[cell] = max(rooms[cell], around.max())
        return rooms.astype(np.int32)


def find_kitchen(layout: str, recipes: str | int | None) -> Kitchen:
    """The kitchen of that name, or the one that the text draws; see `parse_kitchen`."""
    if not isinstance(layout, str):
        raise TypeError(f"A layout is a name or a text, not a {type(layout).__name__}.")
    if layout in KITCHENS:
        text, own, swapped = KITCHENS[layout]
        kitchen = parse_kitchen(text, own if recipes is None else recipes)
        return dataclasses.replace(kitchen, starts=kitchen.starts[::-1]) if swapped else kitchen
    if "\n" in layout or "|" in layout:
        return parse_kitchen(layout, recipes)
    raise UnknownNameError(f"There is no layout {layout!r}. {nearest(layout, [*KITCHENS])} Or draw one, row by row.")


def parse_kitchen(text: str, recipes: str | int | None = None) -> Kitchen:
    """The kitchen that a text draws: a line per row, or rows separated by `|`.

    Args:
        text: W counter, X serving hatch, P pot, B dishes, R recipe indicator, L button that shows the recipe, 0 to 9
            (or O for 0) ingredients, A cook.
        recipes: Those that may be asked for, three digits each, separated by commas; None for all.

    Raises:
        ValueError: Something is wrong with it; the message points at the character.
    """
    known = ", ".join(f"{'a space' if tile == ' ' else tile} ({meaning})" for tile, meaning in TILES.items())
    rows = read_rows(text.replace("O", "0"), {*TILES, *INGREDIENTS}, {" ", "A"}, f"there are {known}, and digits", "W")
    tiles = np.array([list(row) for row in rows]).reshape(-1)
    for needed in "APBX":
        if needed not in tiles:
            raise ValueError(f"The layout has no {needed} ({TILES[needed]}).")
    piles = [int(tile) for tile in tiles.tolist() if tile in INGREDIENTS]
    if not piles:
        raise ValueError("The layout has no ingredients (digits).")
    if recipes is None and "R" not in tiles:
        raise ValueError("Without a recipe indicator (R) the layout needs its recipes, such as recipes='000'.")
    starts = np.flatnonzero(tiles == "A").astype(np.int32)
    tiles[starts] = " "
    number = max(piles) + 1
    return Kitchen(len(rows), len(rows[0]), tiles, starts, number, _recipes(recipes, sorted(set(piles))))


def _recipes(text: str | int | None, piles: list[int]) -> np.ndarray:
    """The recipes of that text, or all of the ingredients that there are `piles` of."""
    if text is None:
        every = itertools.combinations_with_replacement(piles, 3)
        return np.array([recipe(one) for one in every], np.int32)
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ValueError(f"recipes must be such as '000' or '001,011', got {text!r}.")
    every = f"{text:03d}".split(",") if isinstance(text, int) else text.split(",")  # a name has 0 for 000
    for one in every:
        if len(one) != 3 or set(one) - set(map(str, piles)):
            known = ", ".join(map(str, piles))
            raise ValueError(f"A recipe is three of the layout's ingredients, {known}, such as '000', not {one!r}.")
    return np.array([recipe(map(int, one)) for one in every], np.int32)
