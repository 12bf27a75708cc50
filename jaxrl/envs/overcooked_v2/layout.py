"""Kitchens of the second version as text, in JaxMARL's characters (Gessler et al. 2025,
https://arxiv.org/abs/2503.17821), and the numbers of the things in them.

What a cook holds and what lies in a cell is a number of bits, as in JaxMARL: bit 0 is a plate, bit 1 says that it is
cooked, and then there are two bits for how many there are of each ingredient.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.overcooked.layout import Layout, read_rows
from jaxrl.errors import UnknownNameError, nearest

__all__ = [
    "COOKED",
    "INGREDIENTS",
    "KITCHENS",
    "PLATE",
    "TILES",
    "Kitchen",
    "amount",
    "find_kitchen",
    "ingredient",
    "kinds_in",
    "parse_kitchen",
    "recipe",
]

PLATE, COOKED = 1, 2


def ingredient(number: Any) -> Any:
    """One of the ingredient with that number."""
    return 4 << 2 * number


def recipe(numbers: Iterable[int]) -> int:
    """The ingredients with these numbers, together."""
    return sum(ingredient(number) for number in numbers)


def kinds_in(item: int) -> list[int]:
    """The numbers of its ingredients in order, each as often as the item contains it."""
    return [kind for kind in range(10) for _ in range(item >> 2 + 2 * kind & 3)]


def amount(item: jax.Array) -> jax.Array:
    """The number of ingredients in it, int32."""
    shifts = np.arange(2, 22, 2, dtype=np.int32)
    return jnp.sum((item[..., None] >> shifts) & 3, -1, jnp.int32)


KITCHENS: dict[str, tuple[str, str | None, bool]] = {
    "cramped_room": (
        """
        WWPWW
        OA AO
        W   W
        WBWXW
        """,
        "000",
        True,
    ),
    "asymm_advantages": (
        """
        WWWWWWWWW
        O WXWOW X
        W   P   W
        W A PA  W
        WWWBWBWWW
        """,
        "000",
        False,
    ),
    "coord_ring": (
        """
        WWWPW
        W A P
        BAW W
        O   W
        WOXWW
        """,
        "000",
        False,
    ),
    "forced_coord": (
        """
        WWWPW
        O WAP
        OAW W
        B W W
        WWWXW
        """,
        "000",
        False,
    ),
    "counter_circuit": (
        """
        WWWPPWWW
        W A    W
        B WWWW X
        W     AW
        WWWOOWWW
        """,
        "000",
        True,
    ),
    "cramped_room_v2": (
        """
        WWPWW
        0A A1
        W   R
        WBWXW
        """,
        None,
        False,
    ),
    "asymm_advantages_recipes_center": (
        """
        WWWWWWWWW
        0 WXR01 X
        1   P   W
        W A PA  W
        WWWBWBWWW
        """,
        None,
        False,
    ),
    "asymm_advantages_recipes_right": (
        """
        WWWWWWWWW
        0 WXW01 X
        1   P   R
        W A PA  W
        WWWBWBWWW
        """,
        None,
        False,
    ),
    "asymm_advantages_recipes_left": (
        """
        WWWWWWWWW
        0 WXW01 X
        1   P   R
        R A PA  W
        WWWBWBWWW
        """,
        None,
        False,
    ),
    "two_rooms": (
        """
        WWWWWB10W
        W   W   R
        P A W A W
        W   W   X
        WWWWWWWWW
        """,
        None,
        False,
    ),
    "two_rooms_both": (
        """
        W01BWB10W
        W   W   R
        P A W A W
        W   W   X
        WWWWWWWWW
        """,
        None,
        False,
    ),
    "long_room": (
        """
        WWWWWWWWWWWWWWW
        B            AP
        0             X
        WWWWWWWWWWWWWWW
        """,
        "000",
        False,
    ),
    "fun_coordination": (
        """
        WWWWWWWWW
        0   X   2
        RA  P  AW
        1   B   3
        WWWWWWWWW
        """,
        "002,113",
        False,
    ),
    "more_fun_coordination": (
        """
        WWWWWWWWW
        W   X   W
        RA  P  A1
        0   P   2
        W   B   W
        WWWWWWWWW
        """,
        "011,022",
        False,
    ),
    "fun_symmetries": (
        """
        WWWWBWW
        2  W  0
        R APA X
        2  W  1
        WWWWBWW
        """,
        "000,111",
        False,
    ),
    "fun_symmetries_plates": (
        """
        WWWWWWW
        B  W  0
        R APA X
        B  W  1
        WWWWWWW
        """,
        "000,111",
        False,
    ),
    "fun_symmetries1": (
        """
        WWWWWBWW
        2  WW  0
        R AWPA X
        2  WW  1
        WWWWWBWW
        """,
        "000,111",
        False,
    ),
    "grounded_coord_simple": (
        """
        WW2WWWWW
        W  WB  0
        R ALPA X
        W  WB  1
        WW2WWWWW
        """,
        "000,111",
        False,
    ),
    "grounded_coord_ring": (
        """
        WWW2R2WWW
        W       W
        W WWLWW W
        2 0   B 2
        RAXAP X R
        2 1   B 2
        W WWLWW W
        W       W
        WWW2R2WWW
        """,
        "000,111",
        False,
    ),
    "test_time_simple": (
        """
        WW2WWWWW
        W  WB  0
        R AWPA X
        W  WB  1
        WW2WWWWW
        """,
        "000,111",
        False,
    ),
    "test_time_wide": (
        """
        WWXBWW
        0 A  0
        1    1
        WPWPWW
        3 A  3
        W    W
        WWRWWW
        """,
        "000,111",
        False,
    ),
    "demo_cook_simple": (
        """
        WWWWWR2W0WW
        0      W  B
        W     APA X
        1      W  B
        WWWWWR2W1WW
        """,
        "000,111",
        False,
    ),
    "demo_cook_wide": (
        """
        WWWWBXBWWWW
        WWW0 A 1WWW
        WWWWWPWWWWW
        W    A    W
        0  W3R3W  0
        W1WWWWWWW1W
        """,
        "000,111",
        False,
    ),
}
"""For each name the layout, its recipes (None for all), and whether the second cook is the first."""


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
"""The meaning of the characters, besides the digits, ingredients; the first six in the order of the channels."""

INGREDIENTS = "0123456789"
"""The characters of the piles of ingredients."""


@dataclasses.dataclass(frozen=True)
class Kitchen(Layout):
    """A kitchen with the recipes that it may ask for."""

    num_ingredients: int
    recipes: np.ndarray
    """int32 `[R]`, three ingredients each, as `ingredient` packs them."""

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
