"""The four scenarios and the beginning of an episode in them. Batch axes come last.

A plan says where walls and doors stand; everything else begins at a random place with room around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.batching import uniform_rows
from jaxrl.envs.hide_and_seek.geometry import FAR, Rect, disc_out, fixed
from jaxrl.envs.hide_and_seek.world import Cast, Params, State, Tally

__all__ = ["LAYOUTS", "Layout", "Plan", "Zone", "num_draws", "start"]

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
    """The number of random draws in [0, 1) that a plan needs."""
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


_TRIES = 6  # candidates for each place; the one with the most room around it is taken


def num_draws(layout: Layout, cast: Cast) -> int:
    """The number of random draws that a start needs."""
    return layout.num_draws + (cast.num_objects + cast.num_agents) * (1 + 3 * _TRIES)


def start(key: jax.Array, layout: Layout, cast: Cast, params: Params, first: int = 0) -> State:
    """A new episode, in which nobody sees anything yet. Consumes the rows of `key` from `first` on."""
    draws = uniform_rows(key, num_draws(layout, cast), first)
    plan = layout.plan(draws[: layout.num_draws], params)
    own = draws[layout.num_draws :].reshape(-1, 1 + 3 * _TRIES, *key.shape)
    objects = _objects(own[: cast.num_objects], plan, cast, params)
    position = _agents(own[cast.num_objects :], plan, objects, cast, params)
    turn = 2 * np.pi * own[cast.num_objects :, 0]
    num_agents, num_objects, batch = cast.num_agents, cast.num_objects, key.shape

    def zeros(*shape: int) -> jax.Array:
        return jnp.zeros((*shape, *batch), jnp.float32)

    return State(
        position=position,
        velocity=zeros(num_agents, 2),
        heading=jnp.stack([jnp.cos(turn), jnp.sin(turn)], 1),
        spin=zeros(num_agents),
        height=zeros(num_agents),
        held=jnp.full((num_agents, *batch), -1, jnp.int32),
        grip=zeros(num_agents, 4),
        object_position=_rows([jnp.stack([rect.x, rect.y]) for rect in objects], zeros(0, 2)),
        object_heading=_rows([jnp.stack([rect.cos, rect.sin]) for rect in objects], zeros(0, 2)),
        object_velocity=zeros(num_objects, 2),
        locked_by=jnp.full((num_objects, *batch), -1, jnp.int32),
        walls=jnp.broadcast_to(plan.walls, (*plan.walls.shape[:2], *batch)).astype(jnp.float32),
        doors=jnp.broadcast_to(plan.doors, (*plan.doors.shape[:2], *batch)).astype(jnp.float32),
        sight=jnp.zeros((num_agents, num_agents + num_objects, *batch), bool),
        tally=Tally(zeros(), zeros(2, 2), zeros(2, 2), zeros(2)),
        step=jnp.zeros(batch, jnp.int32),
    )


def _objects(draws: jax.Array, plan: Plan, cast: Cast, params: Params) -> list[Rect]:
    """The objects, the longest placed first; long ones lie along the longer side of their zone."""
    placed: dict[int, Rect] = {}
    for o in sorted(range(cast.num_objects), key=lambda o: cast.kinds[o] != "long"):
        half_x, half_y = params.object_size[o, 0], params.object_size[o, 1]
        turn, zones = 2 * np.pi * draws[o, 0], plan.ramps if cast.is_ramp[o] else plan.boxes
        room = jnp.sqrt(half_x * half_x + half_y * half_y)
        cos, sin, margin = jnp.cos(turn), jnp.sin(turn), (room, room)
        if cast.kinds[o] == "long":
            wide = _chosen(plan.zones, zones, draws[o, 1])
            level = (wide[2] - wide[0] >= wide[3] - wide[1]) * jnp.ones_like(turn, bool)
            cos, sin = jnp.where(level, 1.0, 0.0), jnp.where(level, 0.0, 1.0)
            margin = (jnp.where(level, half_x, half_y), jnp.where(level, half_y, half_x))
            zone_draw = draws[o, 1]
        else:
            zone_draw = None
        tries = _tries(draws[o], plan, zones, margin, zone_draw)
        x, y = _roomiest(tries, list(placed.values()), [], jnp.minimum(room, 0.4))
        if cast.kinds[o] == "box" and len(plan.boxes) == 1:
            x, y = _towards_door(x, y, o, plan, room, params)
        placed[o] = Rect(*fixed((x, y)), half_x, half_y, *fixed((cos, sin)))
    return [placed[o] for o in range(cast.num_objects)]


def _towards_door(x: Any, y: Any, number: int, plan: Plan, room: Any, params: Params) -> tuple[Any, Any]:
    """The place of a box moved by `box_to_door` of the way to where it stands before an open door, if there is one."""
    left, bottom, right, top = plan.zones[plan.boxes[0]]
    there_x, there_y, count = x, y, plan.doors.shape[0]
    for k in reversed(range(count)):  # boxes begin with different doors
        door_x, door_y, is_open = plan.doors[(number + k) % count]
        there_x = jnp.where(is_open > 0, jnp.clip(door_x, left + room, right - room), there_x)
        there_y = jnp.where(is_open > 0, jnp.clip(door_y, bottom + room, top - room), there_y)
    return x + params.box_to_door * (there_x - x), y + params.box_to_door * (there_y - y)


def _agents(draws: jax.Array, plan: Plan, objects: Sequence[Rect], cast: Cast, params: Params) -> jax.Array:
    """The places of the agents, `[A, 2, …]`."""
    placed: list[tuple[Any, Any]] = []
    margin = (params.agent_radius + 0.01, params.agent_radius + 0.01)
    for a in range(cast.num_agents):
        zones = plan.hiders if a < cast.num_hiders else plan.seekers
        tries = _tries(draws[a], plan, zones, margin, None)
        placed.append(fixed(_roomiest(tries, objects, placed, params.agent_radius)))
    return jnp.stack([jnp.stack(place) for place in placed])


def _tries(
    draws: jax.Array, plan: Plan, zones: Sequence[int], margin: tuple[Any, Any], zone_draw: Any
) -> tuple[jax.Array, jax.Array]:
    """T random places `[T, …]`, at least `margin` from their zone's edges; all in one zone if its draw is given."""
    which, along, across = draws[1:].reshape(3, _TRIES, *draws.shape[1:])
    left, bottom, right, top = _chosen(plan.zones, zones, which if zone_draw is None else zone_draw)
    return _inside(along, left, right, margin[0]), _inside(across, bottom, top, margin[1])


def _chosen(zones: Sequence[Zone], numbers: Sequence[int], draw: Any) -> Zone:
    """One of the numbered zones."""
    index = draw * len(numbers)
    chosen = zones[numbers[0]]
    for i, number in list(enumerate(numbers))[1:]:
        chosen = tuple(jnp.where(index >= i, new, old) for new, old in zip(zones[number], chosen, strict=True))
    return chosen  # pyright: ignore[reportReturnType]


def _inside(draw: Any, start: Any, end: Any, margin: Any) -> Any:
    """Between two edges with a margin, or in the middle if there is no room for it."""
    return jnp.where(end - start > 2 * margin, start + margin + draw * (end - start - 2 * margin), (start + end) / 2)


def _roomiest(
    tries: tuple[jax.Array, jax.Array], rects: Sequence[Rect], discs: Sequence[tuple[Any, Any]], radius: Any
) -> tuple[Any, Any]:
    """Of T places `[T, …]` the one farthest from everything placed before; beyond half a metre, the first such."""
    x, y = tries
    room = 0.5 + jnp.zeros_like(x)
    if rects:
        apart = -disc_out(_stacked(rects, x), x, y, radius)[2]
        room = jnp.minimum(room, apart.min(0))
    if discs:
        other_x, other_y = _stacked(discs, x)
        apart = jnp.sqrt((x - other_x) ** 2 + (y - other_y) ** 2) - 2 * radius
        room = jnp.minimum(room, apart.min(0))
    best, best_x, best_y = room[0], x[0], y[0]
    for i in range(1, _TRIES):
        better = room[i] > best
        best = jnp.maximum(best, room[i])
        best_x, best_y = jnp.where(better, x[i], best_x), jnp.where(better, y[i], best_y)
    return best_x, best_y


def _stacked(placed: Sequence[Any], tries: jax.Array) -> Any:
    """Fields of N placed things as `[N, 1, …]`, to be compared with places `[T, …]` in one go."""
    batch = tries.shape[1:]
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.broadcast_to(leaf, batch) for leaf in leaves])[:, None], *placed)


def _rows(rows: Sequence[jax.Array], empty: jax.Array) -> jax.Array:
    return jnp.stack(rows) if rows else empty
