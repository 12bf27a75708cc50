"""Kitchens as text, what the rules need to know of each cell, and the numbers of the things in them.

A soup is `SOUP` plus its contents, and contents, also those of a pot, are the onions plus four times the tomatoes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set
from typing import Any, NoReturn

import numpy as np

from jaxrl.envs.options import as_rows
from jaxrl.errors import UnknownNameError, nearest

__all__ = [
    "COOKS",
    "DISH",
    "FULL",
    "ITEMS",
    "LAYOUTS",
    "NOTHING",
    "ONION",
    "ORDERS",
    "SOUP",
    "TILES",
    "TOMATO",
    "Layout",
    "amount",
    "as_contents",
    "find_layout",
    "parse_layout",
    "read_rows",
    "value_of",
]

NOTHING, DISH, ONION, TOMATO = range(4)
ITEMS = {NOTHING: "nothing", DISH: "a dish", ONION: "an onion", TOMATO: "a tomato"}
"""The names of the items other than soups."""
SOUP = 16
FULL = 3  # ingredients in a pot
ORDERS = "ooo"


def amount(contents: Any) -> Any:
    """The number of ingredients."""
    return (contents & 3) + (contents >> 2)


def as_contents(item: Any) -> Any:
    """The contents that an onion or a tomato adds."""
    return 1 << 2 * (item - ONION)


def value_of(orders: str, reward: float) -> np.ndarray:
    """The reward for a soup by its contents, float32 `[16]`: that one for what is ordered, 0 for all else.

    Args:
        orders: Soups separated by commas, each up to three letters, `o` for an onion and `t` for a tomato.
        reward: That for each of them.

    Raises:
        ValueError: Something else stands there.
    """
    if not isinstance(orders, str):
        raise ValueError(f"orders must be soups such as 'ooo' or 'ooo,oot', got {orders!r}.")
    value = np.zeros(16, np.float32)
    for soup in orders.split(","):
        if not 1 <= len(soup) <= FULL or set(soup) - {"o", "t"}:
            raise ValueError(
                f"orders must be soups such as 'ooo' or 'ooo,oot', up to three letters each, got {soup!r}."
            )
        value[soup.count("o") + 4 * soup.count("t")] = reward
    return value


# Carroll et al. 2019, https://arxiv.org/abs/1910.05789
LAYOUTS = {
    "cramped_room": """
        XXPXX
        O  2O
        X1  X
        XDXSX
    """,
    "asymm_advantages": """
        XXXXXXXXX
        O XSXOX S
        X   P 1 X
        X2  P   X
        XXXDXDXXX
    """,
    "coord_ring": """
        XXXPX
        X 1 P
        D2X X
        O   X
        XOSXX
    """,
    "forced_coord": """
        XXXPX
        O X1P
        O2X X
        D X X
        XXXSX
    """,
    "counter_circuit": """
        XXXPPXXX
        X  2   X
        D XXXX S
        X  1   X
        XXXOOXXX
    """,
}
"""The five layouts of the papers."""

TILES = {"P": "pot", "X": "counter", "O": "onions", "T": "tomatoes", "D": "dishes", "S": "serving", " ": "floor"}
"""The meaning of the characters of a layout, besides the cooks' numbers; in the order of an observation's channels."""

COOKS = "123456789"
"""The characters of the cooks."""
_SOURCES = {"O": ONION, "T": TOMATO, "D": DISH}


@dataclasses.dataclass(frozen=True)
class Layout:
    """A kitchen of height x width cells, numbered row by row from the top left."""

    height: int
    width: int
    tiles: np.ndarray
    """The character of each cell, `[height * width]`."""
    starts: np.ndarray
    """`int32[N]`: the cell in which each cook starts."""

    def cells(self, tile: str) -> np.ndarray:
        """The numbers of the cells with that tile, int32."""
        return np.flatnonzero(self.tiles == tile).astype(np.int32)

    def rows(self, cooks: Sequence[str]) -> tuple[str, ...]:
        """The text that draws it, with these characters for the cooks."""
        tiles = self.tiles.copy()
        tiles[self.starts] = list(cooks)
        return tuple("".join(row) for row in tiles.reshape(self.height, self.width).tolist())

    @property
    def sources(self) -> np.ndarray:
        """The item that an empty hand gets at each cell, `int32[height * width]`, 0 for none."""
        return np.array([_SOURCES.get(tile, 0) for tile in self.tiles.tolist()], np.int32)

    @property
    def offsets(self) -> np.ndarray:
        """From a cell to the one above, below, right and left: `int32[4]`."""
        return np.array([-self.width, self.width, 1, -1], np.int32)


def find_layout(layout: str) -> Layout:
    """The layout of that name, or the one that the text draws."""
    if not isinstance(layout, str):
        raise TypeError(f"A layout is a name or a text, not a {type(layout).__name__}.")
    if layout in LAYOUTS:
        return parse_layout(LAYOUTS[layout])
    if "\n" in layout or "|" in layout:
        return parse_layout(layout)
    raise UnknownNameError(f"There is no layout {layout!r}. {nearest(layout, [*LAYOUTS])} Or draw one, row by row.")


def parse_layout(text: str) -> Layout:
    """The kitchen that a text draws: a line per row, or rows separated by `|`, see `as_rows`.

    Raises:
        ValueError: Something is wrong with it; the message points at the character.
    """
    known = ", ".join(f"{'a space' if tile == ' ' else tile} ({meaning})" for tile, meaning in TILES.items())
    rows = read_rows(text, {*TILES, *COOKS}, {" ", *COOKS}, f"there are {known}, and 1 to 9 for the cooks", "X")
    tiles = np.array([list(row) for row in rows]).reshape(-1)
    for needed in ("P", "D", "S"):
        if needed not in tiles:
            raise ValueError(f"The layout has no {needed} ({TILES[needed]}).")
    if not np.isin(["O", "T"], tiles).any():
        raise ValueError("The layout has neither O (onions) nor T (tomatoes).")
    starts = _starts(rows, tiles)
    tiles[starts] = " "
    return Layout(len(rows), len(rows[0]), tiles, starts)


def read_rows(text: str, tiles: Set[str], floor: Set[str], known: str, counter: str) -> list[str]:
    """The rows of a closed kitchen, all of the same width.

    Args:
        text: A line per row, or rows separated by `|`, see `as_rows`.
        tiles: The characters that there are.
        floor: Those on which cooks walk.
        known: What the message says about the characters that there are.
        counter: The character that closes the kitchen.

    Raises:
        ValueError: Something is wrong with it; the message points at the character.
    """
    rows = as_rows(text)
    for y, row in enumerate(rows):
        for x, tile in enumerate(row):
            if tile not in tiles:
                _refuse(rows, y, x, f"{tile!r} means nothing; {known}")
            if tile in floor and (y in (0, len(rows) - 1) or x in (0, len(row) - 1)):
                _refuse(rows, y, x, f"a cook could leave the kitchen here; close it with {counter}")
        if len(row) != len(rows[0]):
            _refuse(rows, y, min(len(row), len(rows[0])), f"this row is {len(row)} wide and the first {len(rows[0])}")
    return rows


def _starts(rows: list[str], tiles: np.ndarray) -> np.ndarray:
    """Where the cooks start, by their numbers: int32 `[N]`."""
    numbers = [int(tile) if tile.isdigit() else 0 for tile in tiles.tolist()]
    for cell, number in enumerate(numbers):
        if number and number in numbers[:cell]:
            _refuse(rows, *divmod(cell, len(rows[0])), f"cook {number} is here a second time")
    count = max(numbers, default=0)
    missing = [number for number in range(1, count + 1) if number not in numbers]
    if not count or missing:
        raise ValueError(f"The layout has no cook {missing[0] if missing else 1}; cooks are 1, 2 and so on.")
    return np.array([numbers.index(number) for number in range(1, count + 1)], np.int32)


def _refuse(rows: list[str], y: int, x: int, problem: str) -> NoReturn:
    """Raise with the row and an arrow below the character."""
    raise ValueError(f"Layout, row {y + 1}, column {x + 1}: {problem}.\n\n    {rows[y]}\n    {' ' * x}^")
