"""The four scenarios: where walls and doors stand, and where agents and objects begin. Batch axes come last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.envs.hide_and_seek.geometry import FAR
from jaxrl.envs.hide_and_seek.world import Cast, Params

__all__ = ["LAYOUTS", "Layout", "Plan", "Zone"]

_MARGIN = 0.4  # between a corner and the middle of a door, besides half the door
Zone = tuple[Any, Any, Any, Any]  # left, bottom, right, top of an area without walls


class Plan(NamedTuple):
    """The plan of an episode. A team's zones are numbers of `zones`."""

    walls: jax.Array  # [W, 4, …], see `State.walls`
    doors: jax.Array  # [D, 3, …], see `State.doors`
    zones: Sequence[Zone]
    hiders: Sequence[int]
    seekers: Sequence[int]
    boxes: Sequence[int]
    ramps: Sequence[int]


class Layout(NamedTuple):
    """A scenario: its plans, and who and what is in it unless an option says otherwise."""

    num_draws: int
    """How many random numbers in [0, 1) a plan needs."""
    plan: Callable[[jax.Array, Params], Plan]
    defaults: Cast
    max_steps: int
    preparation: int


def _chase(draws: jax.Array, params: Params) -> Plan:
    """An open floor of 3 x 3 blocks; between two blocks there may be a wall, with room to pass at both ends."""
    block, walls = params.floor / 3, []
    for line in (1, 2):
        for place in range(3):
            for flip in (False, True):
                there = draws[len(walls)] < params.wall_share
                walls.append(_wall(line * block, (place + 0.15) * block, (place + 0.85) * block, there, flip, params))
    edges = [0.0 * block + params.border, block, 2 * block, params.floor - params.border]
    thick = params.wall_thickness / 2
    zones = [
        (edges[i] + thick, edges[j] + thick, edges[i + 1] - thick, edges[j + 1] - thick)
        for i in range(3)
        for j in range(3)
    ]
    everywhere = range(9)
    doors = jnp.zeros((0, 3, *draws.shape[1:]), jnp.float32)
    return Plan(jnp.stack(walls), doors, zones, everywhere, everywhere, everywhere, everywhere)


def _quadrant(draws: jax.Array, params: Params, one_door: bool = False) -> Plan:
    """A room in a corner with a door in each of its two walls, of which some may be closed, or exactly one is."""
    half, thick, low = params.floor / 2, params.wall_thickness / 2, params.border
    walls, doors = [], []
    for i, flip in enumerate((False, True)):
        end = half - thick if flip else half + thick  # the two walls meet in the room's corner
        middle = _between(draws[2 * i], low, half - thick, params)
        closed = draws[2 * i + 1] < params.door_closed
        if one_door:
            closed = (draws[1] < 0.5) != flip
        pieces, door = _with_door(half, low, end, middle, closed, flip, params)
        walls += pieces
        doors.append(door)
    top = params.floor - low
    zones = [
        (low, low, half - thick, half - thick),
        (half + thick, low, top, top),
        (low, half + thick, half - thick, top),
    ]
    outside = (1, 1, 2)  # twice as large
    return Plan(jnp.stack(walls), jnp.stack(doors), zones, (0,), outside, (0,), outside)


def _room(draws: jax.Array, params: Params) -> Plan:
    """The room in a corner with one door."""
    return _quadrant(draws, params, one_door=True)


def _random_walls(draws: jax.Array, params: Params) -> Plan:
    """Four rooms in a ring, a wall across the floor and one from it to either side, with a door from room to room.

    Half of the plans are transposed.
    """
    low, high, thick = params.border, params.floor - params.border, params.wall_thickness / 2
    third = params.floor * 0.38
    across, left, right = (third + draws[i] * (params.floor - 2 * third) for i in range(3))
    lower, upper = jnp.minimum(left, right), jnp.maximum(left, right)
    walls, doors = [], []
    # (line, from, to, middle of the door, upright or level): the wall across in two parts, then its arms
    lines = (
        (across, low, (lower + upper) / 2, _between(draws[3], low, lower - thick, params), False),
        (across, (lower + upper) / 2, high, _between(draws[4], upper + thick, high, params), False),
        (left, low, across - thick, _between(draws[5], low, across - thick, params), True),
        (right, across + thick, high, _between(draws[6], across + thick, high, params), True),
    )
    for i, (line, start, end, middle, flip) in enumerate(lines):
        pieces, door = _with_door(line, start, end, middle, draws[7 + i] < params.door_closed, flip, params)
        walls += pieces
        doors.append(door)
    zones = [
        (low, low, across - thick, left - thick),
        (low, left + thick, across - thick, high),
        (across + thick, low, high, right - thick),
        (across + thick, right + thick, high, high),
    ]
    flip = draws[11] < 0.5
    zones = [_swapped(zone, flip, (1, 0, 3, 2)) for zone in zones]
    walls = [jnp.stack(_swapped(wall, flip, (1, 0, 3, 2))) for wall in walls]
    doors = [jnp.stack(_swapped(door, flip, (1, 0, 2))) for door in doors]
    return Plan(jnp.stack(walls), jnp.stack(doors), zones, *[range(4)] * 4)


LAYOUTS: dict[str, Layout] = {
    "chase": Layout(12, _chase, Cast(1, 1, 0, 0, 0), 80, 0),
    "room": Layout(4, _room, Cast(1, 1, 1, 0, 0), 80, 32),
    "quadrant": Layout(4, _quadrant, Cast(2, 2, 2, 0, 1), 80, 32),
    "random_walls": Layout(12, _random_walls, Cast(2, 2, 3, 2, 2), 240, 96),
}


def _between(draw: Any, start: Any, end: Any, params: Params) -> Any:
    """The middle of a door in a wall from `start` to `end`."""
    margin = _MARGIN + params.door_width / 2
    draw = 0.5 + params.door_spread * (draw - 0.5)
    return start + margin + draw * jnp.maximum(end - start - 2 * margin, 0.0)


def _with_door(
    line: Any, start: Any, end: Any, middle: Any, closed: Any, flip: bool, params: Params
) -> tuple[list[jax.Array], jax.Array]:
    """The three pieces of a wall with a door, which is the last piece if it is closed, and the door `[3, …]`."""
    half = params.door_width / 2
    pieces = [
        _wall(line, start, middle - half, True, flip, params),
        _wall(line, middle + half, end, True, flip, params),
        _wall(line, middle - half, middle + half, closed, flip, params),
    ]
    door = [line + 0.0 * middle, middle, jnp.where(closed, 0.0, 1.0) + 0.0 * middle]
    return pieces, jnp.stack(_swapped(door, flip, (1, 0, 2)))


def _wall(line: Any, start: Any, end: Any, there: Any, flip: bool, params: Params) -> jax.Array:
    """A wall `[4, …]` on the line x = `line` (with `flip`, y = `line`) from `start` to `end`, if it is there."""
    thick = params.wall_thickness / 2
    shape = jnp.broadcast_shapes(*map(jnp.shape, (line, start, end, there)))
    parts = [line, (start + end) / 2, thick, (end - start) / 2]
    away = (FAR, FAR, 0.0, 0.0)
    parts = [jnp.broadcast_to(jnp.where(there, part, far), shape) for part, far in zip(parts, away, strict=True)]
    return jnp.stack(_swapped(parts, flip, (1, 0, 3, 2)))


def _swapped(parts: Any, flip: Any, order: tuple[int, ...]) -> Any:
    """The parts, in another order where `flip` holds."""
    if isinstance(flip, bool):
        return [parts[i] for i in order] if flip else list(parts)
    return [jnp.where(flip, parts[i], parts[k]) for k, i in enumerate(order)]
