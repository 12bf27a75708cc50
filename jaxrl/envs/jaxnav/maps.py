"""`jaxnav/<map>`: maps by hand, JaxMARL's test cases and your own."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.jaxnav.env import JaxNav
from jaxrl.envs.jaxnav.geometry import wrapped
from jaxrl.envs.jaxnav.world import Params
from jaxrl.errors import UnknownNameError, nearest
from jaxrl.text_map import TextMap, as_rows

__all__ = ["MAPS", "Map", "NamedMap", "parse_map"]

_ROBOTS, _GOALS = "123456789", "abcdefghi"
_TILES = {
    "#": "wall",
    ".": "floor",
    **{robot: f"robot {robot}" for robot in _ROBOTS},
    **{goal: f"goal of robot {robot}" for robot, goal in zip(_ROBOTS, _GOALS, strict=True)},
}


@dataclasses.dataclass(frozen=True)
class Map:
    """Walls, starts and goals.

    Raises:
        ValueError: The rows differ in length or are not closed, or starts and goals differ in number.
    """

    rows: tuple[str, ...]
    """From y = 0 upwards; `#` is a wall, any other character is free."""
    starts: tuple[tuple[float, float, float], ...]
    """x, y and heading of each robot."""
    goals: tuple[tuple[float, float], ...]
    origin: str = ""
    """JaxMARL's name."""

    def __post_init__(self) -> None:
        if len({len(row) for row in self.rows}) != 1:
            raise ValueError(f"All rows of a map must have the same length, got {[len(row) for row in self.rows]}.")
        walls = self.walls
        if not (walls[0].all() and walls[-1].all() and walls[:, 0].all() and walls[:, -1].all()):
            raise ValueError("A map must have a wall, #, in every cell on its edge.")
        if len(self.starts) != len(self.goals) or not self.starts:
            raise ValueError(f"Each start of a map needs a goal; got {len(self.starts)} and {len(self.goals)}.")

    @property
    def walls(self) -> np.ndarray:
        """Bool `[H, W]`."""
        return np.array([[cell == "#" for cell in row] for row in self.rows])


def parse_map(text: str) -> Map:
    """The map that a text draws, from the top: a line per row, or rows separated by `|`.

    Robots begin in the middle of their cells and look to their goals.

    Args:
        text: # wall, . floor, 1 to 9 the robots, a to i their goals.

    Raises:
        ValueError: Something in it means nothing, it is not closed, or a robot or its goal is missing.
    """
    rows = as_rows(text)[::-1]
    found: dict[str, tuple[float, float]] = {}
    for y, row in enumerate(rows):
        for x, tile in enumerate(row):
            if tile not in _TILES:
                raise ValueError(f"{tile!r} means nothing in a map; there are # . 1 to 9, and a to i for their goals.")
            if tile in found:
                raise ValueError(f"{tile} ({_TILES[tile]}) stands in the map twice.")
            if tile not in "#.":
                found[tile] = (x + 0.5, y + 0.5)
    count = max([1, *(1 + (_ROBOTS + _GOALS).index(tile) % len(_ROBOTS) for tile in found)])
    for tile in (*_ROBOTS[:count], *_GOALS[:count]):
        if tile not in found:
            raise ValueError(f"The map has no {tile} ({_TILES[tile]}).")
    starts, goals = ([found[tile] for tile in tiles[:count]] for tiles in (_ROBOTS, _GOALS))
    headed = [(x, y, math.atan2(v - y, u - x)) for (x, y), (u, v) in zip(starts, goals, strict=True)]
    return Map(tuple(rows), tuple(headed), tuple(goals))


class NamedMap(JaxNav):
    """The same map, starts and goals in every episode.

    Args:
        map: One of `MAPS`, by its name, a text (see `parse_map`), or a `Map`.
        action_type: See `JaxNav`, like the following.
        num_beams: R.
        lidar_range: In metres.
        max_steps: Steps after which an episode is truncated.

    Raises:
        ValueError: An option is out of its range, there is no such map, or the text draws none.
    """

    intended = ("same_start", "unused_params")  # some parameters are for random maps

    def __init__(
        self,
        map: str | Map = "blank",
        *,
        action_type: str = "continuous",
        num_beams: int = 200,
        lidar_range: float = 6.0,
        max_steps: int = 500,
    ) -> None:
        self.map = _find_map(map) if isinstance(map, str) else map
        super().__init__(
            len(self.map.starts),
            action_type=action_type,
            num_beams=num_beams,
            lidar_range=lidar_range,
            max_steps=max_steps,
        )

    @property
    def text_map(self) -> TextMap:
        """The map as text, with starts and goals in the middle of their cells.

        Raises:
            NotImplementedError: A text cannot show it: it has more than nine robots, or two things in one cell.
        """
        cells = [["#" if wall else "." for wall in row] for row in self.map.walls]
        places = [*self.map.starts, *self.map.goals]
        if self.num_agents > len(_ROBOTS) or len({(int(x), int(y)) for x, y, *_ in places}) < len(places):
            raise NotImplementedError("A text cannot show this map: two things share a cell, or there are ten robots.")
        for tile, (x, y, *_) in zip(_ROBOTS[: self.num_agents] + _GOALS[: self.num_agents], places, strict=True):
            cells[int(y)][int(x)] = tile
        return TextMap("jaxnav/own", "map", tuple("".join(row) for row in cells[::-1]), _TILES, "#", _ROBOTS + _GOALS)

    def level(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        starts = jnp.asarray(self.map.starts, jnp.float32)
        return (
            starts[:, :2],
            wrapped(starts[:, 2]),
            jnp.asarray(self.map.goals, jnp.float32),
            jnp.asarray(self.map.walls),
        )


def _find_map(name: str) -> Map:
    """The map of that name, or the one that the text draws."""
    if name in MAPS:
        return MAPS[name]
    if "|" in name or "\n" in name:
        return parse_map(name)
    raise UnknownNameError(f"There is no map {name!r}. {nearest(name, list(MAPS))} Or draw one, row by row.")


def _box(width: int, height: int) -> tuple[str, ...]:
    """A room without walls inside."""
    return ("#" * width, *(("#" + "." * (width - 2) + "#",) * (height - 2)), "#" * width)


def _circle(num_agents: int, radius: float) -> Map:
    """Robots on a circle, each of which is to get to the opposite side."""
    middle = 1.5 * radius
    angles = [2 * math.pi * i / num_agents for i in range(num_agents)]
    places = [(radius * math.cos(a) + middle, radius * math.sin(a) + middle) for a in angles]
    opposite = [(2 * middle - x, 2 * middle - y) for x, y in places]
    starts = tuple((x, y, math.pi + angle) for (x, y), angle in zip(places, angles, strict=True))
    return Map(_box(int(3 * radius), int(3 * radius)), starts, tuple(opposite), "CircleCross")


_ROOM = _box(7, 7)
_WINDING = (
    "###########",
    "#..#####..#",
    "#...#..##.#",
    "#.#.#.....#",
    "#.#....#..#",
    "#.#.#.....#",
    "###########",
)
_CHICANE = ("##############", "#.......##...#", "#...##..##...#", "#...##.......#", "##############")
_NARROW = ("##############", "#.......##...#", "#...###.##...#", "#...###......#", "##############")
_PAIRS = ((2.0, 2.5, 0.0), (2.0, 4.5, 0.0), (8.0, 2.5, 3.14), (8.0, 4.5, 3.14))
_SWAPPED = ((8.0, 2.5), (8.0, 4.5), (2.0, 2.5), (2.0, 4.5))
_EIGHT = tuple((x, y, angle) for x, angle in ((2.0, 0.0), (8.0, 3.14)) for y in (2.0, 3.5, 5.5, 7.0))

MAPS: dict[str, Map] = {
    "blank": Map(_ROOM, ((1.5, 1.5, 0.0),), ((5.5, 5.5),), "BlankTest"),
    "middle": Map(
        ("#######", "#.....#", "#.###.#", "#.###.#", "#.###.#", "#.....#", "#######"),
        ((1.5, 1.5, 0.0),),
        ((5.5, 5.5),),
        "MiddleTest",
    ),
    "single_nav1": Map(
        (
            "###########",
            "##........#",
            "#..##.###.#",
            "##........#",
            "##.##.###.#",
            "#......#..#",
            "###########",
        ),
        ((9.5, 1.5, 0.78),),
        ((1.5, 5.5),),
        "SingleNav1",
    ),
    "single_nav2": Map(_WINDING, ((8.5, 1.5, 3.14),), ((1.5, 5.5),), "SingleNav2"),
    "single_nav3": Map(_WINDING, ((9.1, 1.5, 3.14),), ((1.5, 5.5),), "SingleNav3"),
    "blank_cross2": Map(_ROOM, ((1.5, 1.5, 0.78), (5.5, 5.5, 3.92)), ((5.5, 5.5), (1.5, 1.5)), "BlankCross2"),
    "blank_cross_uneven2": Map(
        _ROOM, ((2.0, 2.5, 0.78), (5.5, 5.5, 3.92)), ((5.5, 5.5), (1.5, 1.5)), "BlankCrossUneven2"
    ),
    "blank_cross4": Map(
        _ROOM,
        ((1.5, 1.5, 0.78), (5.5, 5.5, 3.92), (1.5, 5.5, -0.78), (5.5, 1.5, -3.92)),
        ((5.5, 5.5), (1.5, 1.5), (5.5, 1.5), (1.5, 5.5)),
        "BlankCross4",
    ),
    "circle_cross": _circle(10, 6.0),
    "long_corridor2": Map(
        ("##########", "#######..#", "#..####..#", "#........#", "#..####..#", "#######..#", "##########"),
        ((1.5, 3.5, 0.0), (8.0, 3.5, 3.14)),
        ((6.0, 3.5), (1.5, 3.5)),
        "LongCorridor2",
    ),
    "corridor4": Map(
        ("##########", "#...##...#", "#...##...#", "#........#", "#...##...#", "#...##...#", "##########"),
        _PAIRS,
        _SWAPPED,
        "Corridor4",
    ),
    "corridor8": Map(
        (
            "##########",
            "#...##...#",
            "#...##...#",
            "#...##...#",
            "#........#",
            "#...##...#",
            "#...##...#",
            "#...##...#",
            "##########",
        ),
        _EIGHT,
        tuple((x, y) for x, y, _ in _EIGHT[4:] + _EIGHT[:4]),
        "Corridor8",
    ),
    "layby4": Map(
        ("##########", "#..####..#", "#..#.##..#", "#........#", "#..##.#..#", "#..####..#", "##########"),
        _PAIRS,
        _SWAPPED,
        "Layby4",
    ),
    "corner2": Map(
        ("#######", "#.....#", "####..#", "#####.#", "#####.#", "#####.#", "#######"),
        ((1.5, 1.5, 0.0), (5.5, 5.5, -1.57)),
        ((5.5, 5.5), (1.5, 1.5)),
        "Corner2",
    ),
    "chicane2": Map(_CHICANE, ((2.5, 2.5, 0.0), (11.5, 2.5, 3.14)), ((9.5, 3.5), (2.5, 2.5)), "Chicane2"),
    "chicane4": Map(
        _CHICANE,
        ((2.5, 1.75, 0.0), (2.5, 3.25, 0.0), (11.5, 1.75, 3.14), (11.5, 3.25, 3.14)),
        ((9.5, 3.5), (11.5, 1.75), (2.5, 3.25), (4.5, 1.5)),
        "Chicane4",
    ),
    "narrow_chicane2a": Map(_NARROW, ((2.5, 2.5, 0.0), (11.5, 2.5, 3.14)), ((9.5, 3.5), (2.5, 2.5)), "NarrowChicane2a"),
    "narrow_chicane2b": Map(_NARROW, ((2.5, 1.5, 0.0), (11.5, 2.5, 3.14)), ((7.5, 1.5), (2.5, 2.5)), "NarrowChicane2b"),
}
