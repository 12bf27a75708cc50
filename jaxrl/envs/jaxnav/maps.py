"""The environments by their maps: `jaxnav/<map>`, maps by hand, and `jaxnav/random`, a new one in every episode.

The maps by hand are JaxMARL's test cases and your own.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.environment import select
from jaxrl.envs.jaxnav.env import JaxNav
from jaxrl.envs.jaxnav.rules import Params, State, circle_is_free, neighbours, wrapped
from jaxrl.envs.options import TextMap, as_rows, flag, part, whole
from jaxrl.errors import UnknownNameError, nearest

__all__ = ["MAPS", "Map", "NamedMap", "RandomMap", "parse_map", "regions"]

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


_TRIES = 64  # pairs of start and goal that are drawn at once
_ROUNDS = 16  # before the map loses walls
_MARGIN = 0.3  # of starts and goals, to the walls on the edge
_FAR = np.float32(1e6)  # where the start and the goal are of a robot that is in nobody's way


class RandomMap(JaxNav):
    """Walls are drawn cell by cell; starts and goals keep clear of them and of each other.

    Where the robots find no room, a quarter of the walls go, as often as it takes.

    Args:
        num_agents: N, the robots.
        width: W, the cells along x, the edge included; a cell is 1 m wide.
        height: H, the cells along y, likewise.
        fill: The share of the inner cells that are walls at most; how many are, is drawn.
        reachable: Whether there is always a way to each goal. In JaxMARL, there need not be one.
        action_type: See `JaxNav`, like the following.
        num_beams: R.
        lidar_range: In metres.
        max_steps: Steps after which an episode is truncated.

    Raises:
        ValueError: An option is out of its range, or there are too many robots for the map.
    """

    def __init__(
        self,
        num_agents: int = 2,
        *,
        width: int = 11,
        height: int = 11,
        fill: float = 0.3,
        reachable: bool = True,
        action_type: str = "continuous",
        num_beams: int = 200,
        lidar_range: float = 6.0,
        max_steps: int = 500,
    ) -> None:
        super().__init__(
            num_agents,
            action_type=action_type,
            num_beams=num_beams,
            lidar_range=lidar_range,
            max_steps=max_steps,
        )
        self._default_params = dataclasses.replace(self._default_params, fill=np.float32(part("fill", fill)))
        self.shape = (whole("height", height, 5, 100), whole("width", width, 5, 100))
        low = np.full(2, 1 + _MARGIN, np.float32)
        self._inside = low, np.array(self.shape[::-1], np.float32) - low  # the x and y of starts and goals
        self.reachable = flag("reachable", reachable)
        most = (self.shape[0] - 2) * (self.shape[1] - 2) // 6
        if self.num_agents > most:
            size = f"{width} by {height}"
            raise ValueError(f"A map of {size} cells has room for {most} robots, not {num_agents}; make it larger.")

    def level(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        key_walls, key_heading, key_place = jax.random.split(key, 3)
        heading = jax.random.uniform(key_heading, (self.num_agents,), jnp.float32, -np.pi, np.pi)
        count, order = self._walls(key_walls, params)

        def draw(tried: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            inner = (order < tried[0]).reshape(self.shape[0] - 2, self.shape[1] - 2)
            walls = jnp.ones(self.shape, bool).at[1:-1, 1:-1].set(inner)
            fewer = (3 * tried[0] - 1) // 4  # -1 after none at all
            return fewer, walls, *self._places(jax.random.clone(key_place), walls, params)

        def goes_on(tried: tuple[jax.Array, ...]) -> jax.Array:
            return ~tried[-1] & (tried[0] >= 0)

        nowhere = jnp.zeros((self.num_agents, 2), jnp.float32)
        none = (count, jnp.ones(self.shape, bool), nowhere, nowhere, jnp.zeros((), bool))
        _, walls, start, goal, _ = jax.lax.while_loop(goes_on, draw, none)
        return start, heading, goal, walls

    def mutate(self, key: jax.Array, state: State, params: Any = None) -> State:
        """The start with one cell, one robot's start or one robot's goal changed, equally often. Consumes `key`.

        An inner cell without a start or a goal becomes a wall or free, or a start or a goal moves. The state stays as
        it is if a robot or a goal would be nearer to a wall or to another one than in new maps, or out of reach where
        `reachable` forbids it. Edited maps may have more walls than `fill` allows new ones. Headings stay.
        """
        params = self._params(params)
        key_kind, key_cell, key_robot, key_distance, key_angle = jax.random.split(key, 5)
        pairs = jnp.stack([state.position, state.goal], axis=1)  # [N, 2, 2]
        kind = jax.random.randint(key_kind, (), 0, 3, jnp.int32)

        # A cell, after which all robots and goals must fit as they are.
        x, y = jnp.moveaxis(jnp.floor(pairs).astype(jnp.int32), -1, 0)
        can_change = jnp.zeros(self.shape, bool).at[1:-1, 1:-1].set(True).at[y, x].set(False)
        drawn = jnp.where(can_change, jax.random.uniform(key_cell, self.shape, jnp.float32), -1.0)
        chosen = (np.arange(drawn.size) == jnp.argmax(drawn)).reshape(self.shape)
        walls = state.walls ^ (chosen & (kind == 0))
        around, region = neighbours(walls), regions(walls) if self.reachable else None

        def fits(robot: jax.Array, pair: jax.Array) -> jax.Array:
            return _fits(pair, pairs.at[robot].set(_FAR), around, region, params)

        all_fit = jnp.all(jax.vmap(fits)(jnp.arange(self.num_agents), pairs))

        # A start or a goal, in the first of many places that fits.
        robot = jax.random.randint(key_robot, (), 0, self.num_agents, jnp.int32)
        end = (kind == 2).astype(jnp.int32)  # 0 is the start, 1 the goal
        places = self._away(pairs[robot, 1 - end], key_distance, key_angle, params)
        tried = jnp.tile(pairs[robot], (_TRIES, 1, 1)).at[:, end].set(places)
        fit = jax.vmap(fits, (None, 0))(robot, tried)
        moved = pairs.at[robot].set(tried[jnp.argmax(fit)])

        position, goal = jnp.moveaxis(jnp.where(kind == 0, pairs, moved), 1, 0)
        edited = dataclasses.replace(state, position=position, goal=goal, walls=walls)
        return select(jnp.where(kind == 0, all_fit, fit.any()), edited, state)

    def _walls(self, key: jax.Array, params: Params) -> tuple[jax.Array, jax.Array]:
        """The number of inner cells that are walls, and the order in which they become walls, `[(H - 2) * (W - 2)]`.

        The number is uniform, from none to fewer than `fill` of the inner cells; all places are alike.
        """
        key_count, key_order = jax.random.split(key)
        inner = (self.shape[0] - 2) * (self.shape[1] - 2)
        most = jnp.maximum(jnp.floor(inner * params.fill), 1)
        count = jnp.floor(jax.random.uniform(key_count, (), jnp.float32) * most).astype(jnp.int32)
        return count, jnp.argsort(jax.random.uniform(key_order, (inner,), jnp.float32))

    def _places(self, key: jax.Array, walls: jax.Array, params: Params) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Starts and goals `[N, 2]`, one robot after another, and whether there is room for all."""
        around, region = neighbours(walls), regions(walls) if self.reachable else None
        far = jnp.full((self.num_agents, 2, 2), _FAR)

        def place(pairs: jax.Array, own: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            number, key_own = own

            def draw(tried: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
                drawn = self._pairs(jax.random.fold_in(key_own, tried[0]), params)
                fits = jax.vmap(lambda pair: _fits(pair, pairs, around, region, params))(drawn)
                return tried[0] + 1, drawn[jnp.argmax(fits)], jnp.any(fits)

            def goes_on(tried: tuple[jax.Array, ...]) -> jax.Array:
                return ~tried[2] & (tried[0] < _ROUNDS)

            none = (jnp.zeros((), jnp.int32), far[0], jnp.zeros((), bool))
            _, pair, found = jax.lax.while_loop(goes_on, draw, none)
            return pairs.at[number].set(pair), found

        numbers = jnp.arange(self.num_agents)
        pairs, found = jax.lax.scan(place, far, (numbers, jax.random.split(key, self.num_agents)))
        return pairs[:, 0], pairs[:, 1], jnp.all(found)

    def _pairs(self, key: jax.Array, params: Params) -> jax.Array:
        """Pairs of a start and a goal, `[_TRIES, 2, 2]`, inside the edge; the goal is in any direction."""
        key_start, key_distance, key_angle = jax.random.split(key, 3)
        start = jax.random.uniform(key_start, (_TRIES, 2), jnp.float32, *self._inside)
        return jnp.stack([start, self._away(start, key_distance, key_angle, params)], axis=1)

    def _away(self, place: jax.Array, key_distance: jax.Array, key_angle: jax.Array, params: Params) -> jax.Array:
        """Places as far from `place` as a goal is from its start, in any direction inside the edge, `[_TRIES, 2]`."""
        low, high = self._inside
        farthest = jnp.maximum(high[1], params.least_distance)
        distance = jax.random.uniform(key_distance, (_TRIES,), jnp.float32, params.least_distance, farthest)
        angle = jax.random.uniform(key_angle, (_TRIES,), jnp.float32, -np.pi, np.pi)
        way = distance[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        return jnp.clip(place + way, low, high)


def regions(walls: jax.Array) -> jax.Array:
    """A number for each cell, int32 `[H, W]`, the same for cells with a way between them; -1 for walls."""
    number = jnp.where(walls, -1, jnp.arange(walls.size, dtype=jnp.int32).reshape(walls.shape))

    def spread(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        number, _ = carry
        most = number
        for shift, axis in ((1, 0), (-1, 0), (1, 1), (-1, 1)):  # the edge is wall, so rolling over it does no harm
            most = jnp.maximum(most, jnp.roll(number, shift, axis))
        most = jnp.where(walls, -1, most)
        return most, jnp.any(most != number)

    return jax.lax.while_loop(lambda carry: carry[1], spread, (number, jnp.ones((), bool)))[0]


def _fits(pair: jax.Array, others: jax.Array, around: jax.Array, region: jax.Array | None, params: Params) -> jax.Array:
    """True if a start and its goal are clear of walls and of those of the other robots, and not too close."""
    start, goal = pair
    apart = jnp.linalg.norm(others - pair, axis=-1) > 2 * params.start_clearance
    fits = jnp.all(apart) & (jnp.linalg.norm(start - goal) > 2 * params.goal_clearance)
    fits &= circle_is_free(start, params.start_clearance, around) & circle_is_free(goal, params.goal_clearance, around)
    if region is None:
        return fits
    of_start, of_goal = (region[cell[1], cell[0]] for cell in jnp.floor(pair).astype(jnp.int32))
    return fits & (of_start == of_goal)
