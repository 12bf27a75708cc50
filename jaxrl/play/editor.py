"""A map that is drawn key by key: `jaxrl edit`."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any, Protocol, runtime_checkable

from jaxrl.envs.options import TextMap, as_rows
from jaxrl.envs.smax.drawing import battle_map
from jaxrl.registry import canonical, make, parse_options, spelled

__all__ = ["Editor", "Sketch"]

_MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_SIZES = {"[": "removes the column", "]": "adds one", "{": "removes the row", "}": "adds one"}
_FLOOR = "floor"  # what it is called everywhere
_ERASERS = ("\x7f", "\x08", ".", " ")
_SPACE = "space"  # in the legend, and for lines, which are typed without the spaces around them
_UNDO = "u"


@runtime_checkable
class _Drawn(Protocol):
    """An environment whose map is a text."""

    @property
    def text_map(self) -> TextMap: ...


@dataclasses.dataclass(frozen=True)
class Sketch:
    """The rows of a map, all of the same length, and the cell that the next key changes."""

    rows: tuple[str, ...]
    y: int = 0
    x: int = 0

    @property
    def width(self) -> int:
        """The length of a row."""
        return len(self.rows[0])

    def moved(self, y: int, x: int) -> Sketch:
        """One cell further, or as far as the map goes."""
        down, right = min(max(self.y + y, 0), len(self.rows) - 1), min(max(self.x + x, 0), self.width - 1)
        return dataclasses.replace(self, y=down, x=right)

    def put(self, tile: str) -> Sketch:
        """With this character in the cell."""
        row = self.rows[self.y]
        changed = row[: self.x] + tile + row[self.x + 1 :]
        return dataclasses.replace(self, rows=(*self.rows[: self.y], changed, *self.rows[self.y + 1 :]))

    def turned(self) -> Sketch:
        """With rows for columns."""
        return Sketch(tuple(map("".join, zip(*self.rows, strict=True))), self.x, self.y)

    def without_row(self) -> Sketch:
        """Without the cell's row.

        Raises:
            ValueError: Only two are left; a text without a line break would be taken for a name.
        """
        if len(self.rows) == 2:
            raise ValueError("A map has at least two rows and columns.")
        return Sketch((*self.rows[: self.y], *self.rows[self.y + 1 :]), self.y, self.x).moved(0, 0)

    def with_row(self, row: str) -> Sketch:
        """With another row before the cell's."""
        return dataclasses.replace(self, rows=(*self.rows[: self.y], row, *self.rows[self.y :]))


class Editor:
    """A map that a person draws.

    Args:
        env: The name of the environment to begin with; its map may be unfinished.

    Raises:
        UnknownNameError: There is no such environment.
        ValueError: Its map is not a text.
    """

    def __init__(self, env: str) -> None:
        name, _, query = env.partition("?")
        options = parse_options(query)
        drawn = {option: text for option, text in options.items() if "|" in str(text)}  # as it may not be finished yet
        if re.split("[/?]", canonical(env))[0] == "smax":
            self.map, options, drawn = battle_map(env), {}, {}
        else:
            made = make(spelled(name, {option: value for option, value in options.items() if option not in drawn}))
            if not isinstance(made, _Drawn):
                raise ValueError(f"The map of {env} is not a text; edit overcooked, overcooked_v2, jaxnav/own or smax.")
            self.map = made.text_map
        rows = as_rows(drawn.pop(self.map.option)) if self.map.option in drawn else self.map.rows
        width = max(map(len, rows))
        self.sketch = Sketch(tuple(row.ljust(width, self.map.wall) for row in rows))
        self._options: dict[str, Any] = {**self.map.others, **options}
        self._past: list[Sketch] = []

    @property
    def name(self) -> str:
        """The name of the environment with this map."""
        return spelled(self.map.env, {**self._options, self.map.option: self.map.text(self.sketch.rows)})

    @property
    def problem(self) -> str | None:
        """The fault of the map; None if it can be played."""
        try:
            make(self.name)
        except ValueError as error:
            return str(error)
        return None

    @property
    def legend(self) -> str:
        """The characters of the map and their meanings."""
        parts = []
        for meaning, group in itertools.groupby(self.map.tiles.items(), lambda item: item[1].rstrip(" 0123456789")):
            tiles = [_SPACE if tile == " " else tile for tile, _ in group]
            parts.append(f"{tiles[0] if len(tiles) == 1 else f'{tiles[0]} to {tiles[-1]}'} {meaning}")
        return ", ".join(parts)

    @property
    def keys(self) -> str:
        """The keys besides the characters of the map."""
        return f"arrows move, {', '.join(f'{key} {does}' for key, does in _SIZES.items())}, {_UNDO} takes back"

    def type(self, key: str) -> None:
        """Move, change the cell and go on to the next one, change the size, or take the last change back.

        Args:
            key: A character or its name in the legend, its meaning, such as `pot`, or `up`, `down`, `left` and `right`.

        Raises:
            ValueError: It means nothing, there is nothing to take back, or nothing would be left.
        """
        now = self.sketch
        if key in _MOVES:
            self.sketch = now.moved(*_MOVES[key])
        elif key == _UNDO:
            if not self._past:
                raise ValueError("There is nothing to take back.")
            self.sketch = self._past.pop()
        else:
            self.sketch = self._resized(key) if key in _SIZES else now.put(self._tile(key)).moved(0, 1)
            self._past.append(now)

    def _resized(self, key: str) -> Sketch:
        """The sketch without the cell's row or column, or with one more before it: the same walls and floor again."""
        along = self.sketch if key in "{}" else self.sketch.turned()
        row = "".join(self._ground(tile) for tile in along.rows[along.y])
        changed = along.with_row(row) if key in "]}" else along.without_row()
        return changed if key in "{}" else changed.turned()

    def _ground(self, tile: str) -> str:
        """The floor below what stands on it, or another ground; a wall for all else."""
        floor = self._tile(_FLOOR)
        below = floor if tile == floor or tile in self.map.standing else self.map.wall
        return tile if tile in self.map.ground else below

    def _tile(self, key: str) -> str:
        """The character that is meant."""
        by_meaning = {meaning: tile for tile, meaning in self.map.tiles.items()}
        key = " " if key == _SPACE else key
        if key in self.map.tiles:
            return key
        if key in by_meaning or key in _ERASERS:
            return by_meaning[_FLOOR if key in _ERASERS else key]
        raise ValueError(f"There is no {key!r}. You can type {self.legend}; {self.keys}.")
