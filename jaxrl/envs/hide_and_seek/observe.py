"""The sight of agents, and what networks read: a vector for each agent, and one of the world for a central critic.

Agents see a cone with free lines of sight, and lidar all around. Batch axes come last: vectors are `[A, D, …]`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities, Group
from jaxrl.envs.hide_and_seek.geometry import FAR, Rect, blocks, ray
from jaxrl.envs.hide_and_seek.world import HALF_SIZES, HIDER, SEEKER, Agents, Cast, Objects, Params, State

__all__ = [
    "OBJECT",
    "OTHER",
    "OWN",
    "agents_of",
    "entities",
    "global_state",
    "in_cone",
    "lidar",
    "line_of_sight",
    "objects_of",
    "observation",
    "observation_size",
    "sight",
    "state_entities",
    "walls_of",
]

OWN = ("x", "y", "vx", "vy", "cos", "sin", "spin", "height", "holds", "prepares", "time_left", "is_seeker")
"""The numbers that an agent knows of itself."""
OTHER = ("seen", "dx", "dy", "vx", "vy", "cos", "sin", "height", "is_mate")
"""The numbers that it sees of another agent; all 0 if it does not see it."""
OBJECT = (
    *("seen", "dx", "dy", "vx", "vy", "cos", "sin", "half_length", "half_width"),
    *("is_ramp", "is_locked", "is_locked_by_us", "is_held_by_me"),
)
"""The numbers that it sees of an object; all 0 if it does not see it."""
_SPEED, _SPIN = 0.5, 0.25  # scales that keep velocities around 1


def observation_size(cast: Cast, num_rays: int) -> int:
    """D: the agent itself, its lidar, the other agents in their order, the objects in theirs."""
    return len(OWN) + num_rays + (cast.num_agents - 1) * len(OTHER) + cast.num_objects * len(OBJECT)


def agents_of(state: State) -> Agents:
    """The agents as physics takes them."""
    places = (state.position[:, 0], state.position[:, 1], state.velocity[:, 0], state.velocity[:, 1])
    return Agents(*places, state.heading[:, 0], state.heading[:, 1], state.spin, state.height)


def objects_of(state: State) -> Objects:
    """The objects likewise."""
    place, heading = state.object_position, state.object_heading
    return Objects(place[:, 0], place[:, 1], heading[:, 0], heading[:, 1])


def walls_of(state: State) -> Rect:
    """The walls as rectangles."""
    return Rect(*(state.walls[:, i] for i in range(4)))


def observation(state: State, cast: Cast, num_rays: int, params: Params) -> jax.Array:
    """The agents' observations, float32 `[A, D, …]`."""
    rects = objects_of(state).rect(params)
    rays = lidar(agents_of(state), rects, walls_of(state), num_rays, params)
    others, objects = [], []
    for k in range(cast.num_agents - 1):
        others += _other(state, cast, k)
    for o in range(cast.num_objects):
        objects += _object(state, cast, o, params)
    shape = state.height.shape
    own, *lists = (
        jnp.stack([jnp.broadcast_to(column, shape) for column in columns], 1).astype(jnp.float32)
        for columns in (_own(state, cast, params), others, objects)
        if columns
    )
    return jnp.concatenate([own, rays, *lists], 1)


def entities(cast: Cast, num_rays: int) -> Entities:
    """The entities in an observation: other agents and the objects of each kind, absent while they are not seen."""
    others, after = _blocks({"agent": cast.num_agents - 1}, (len(OTHER),), len(OWN) + num_rays)
    objects, after = _blocks(_counts(cast), (len(OBJECT),), after)
    return Entities(after, (*others, *objects))


def global_state(state: State, params: Params) -> jax.Array:
    """float32 `[G, …]`: everything as it is, whoever sees it.

    For each agent place, velocity, heading, spin, height and whether it holds something; for each object place,
    velocity, heading and whose lock it has; walls and doors (zeros for those that are not there); who sees whom; the
    clock.
    """
    walls = jnp.where(state.walls[:, 2:3] > 0, state.walls / params.floor, 0.0)
    doors = jnp.where(state.doors[:, :1] < FAR / 2, state.doors / params.floor, 0.0)
    owners = [(state.locked_by == team) * 1.0 for team in (HIDER, SEEKER)]
    parts = [
        *(_centred(state.position, params), state.velocity * _SPEED, state.heading, state.spin * _SPIN),
        *(state.height, (state.held >= 0) * 1.0),
        *(_centred(state.object_position, params), state.object_velocity * _SPEED, state.object_heading, *owners),
        *(walls, doors, state.sight * 1.0, *(share[None] for share in _clock(state, params))),
    ]
    return jnp.concatenate([part.reshape(-1, *state.step.shape) for part in parts]).astype(jnp.float32)


def state_entities(cast: Cast, num_walls: int, num_doors: int) -> Entities:
    """The entities that `global_state` is made of: the agents of each team, the objects of each kind, walls and doors.

    Who sees whom is unused: it follows from the rest, and each of its numbers belongs to a pair, not to one entity.
    """
    counts = {"hider": cast.num_hiders, "seeker": cast.num_seekers}
    agents, after = _blocks(counts, (2, 2, 2, 1, 1, 1), 0)
    objects, after = _blocks(_counts(cast), (2, 2, 2, 1, 1), after)
    walls, after = _blocks({"wall": num_walls}, (4,), after)
    doors, after = _blocks({"door": num_doors}, (3,), after)
    sight = cast.num_agents * (cast.num_agents + cast.num_objects)
    return Entities(after + sight + 2, (*agents, *objects, *walls, *doors), unused=((after, sight),))


def _counts(cast: Cast) -> dict[str, int]:
    """The number of objects of each kind, in their order."""
    return {kind: cast.kinds.count(kind) for kind in HALF_SIZES}


def _blocks(counts: dict[str, int], sizes: tuple[int, ...], start: int) -> tuple[list[Group], int]:
    """A group of each kind that has members, and where the numbers about them end.

    From `start` on there are `sizes[0]` numbers about each entity, one kind after another, then `sizes[1]` about each,
    and so on.
    """
    total, groups, before = sum(counts.values()), [], 0
    starts = [start + total * sum(sizes[:i]) for i in range(len(sizes))]
    for kind, count in counts.items():
        parts = tuple((first + before * size, size) for first, size in zip(starts, sizes, strict=True))
        groups += [Group(kind, count, parts)] if count else []
        before += count
    return groups, start + total * sum(sizes)


def _own(state: State, cast: Cast, params: Params) -> list[Any]:
    """The columns of `OWN`, each `[A, …]` or less."""
    place, speed = _centred(state.position, params), state.velocity * _SPEED
    clock = _clock(state, params)
    seeker = _rows(np.equal(cast.teams, SEEKER), state.height)
    return [
        *(place[:, 0], place[:, 1], speed[:, 0], speed[:, 1], state.heading[:, 0], state.heading[:, 1]),
        *(state.spin * _SPIN, state.height, state.held >= 0, *clock, seeker),
    ]


def _other(state: State, cast: Cast, k: int) -> list[Any]:
    """The columns of `OTHER` for the k-th other agent of each agent, `[A, …]`: agent k, or k + 1 from agent k on."""
    later = _rows(np.arange(cast.num_agents) <= k, state.height)

    def of(rows: Any) -> Any:
        return jnp.where(later, rows[k + 1], rows[k])

    seen = jnp.where(later, state.sight[:, k + 1], state.sight[:, k])
    teams = np.array(cast.teams)
    mate = _rows(np.where(np.arange(cast.num_agents) <= k, teams[k + 1], teams[k]) == teams, state.height)
    dx, dy = (of(state.position[:, i]) - state.position[:, i] for i in (0, 1))
    vx, vy = (of(state.velocity[:, i]) * _SPEED for i in (0, 1))
    cos, sin = (of(state.heading[:, i]) for i in (0, 1))
    return [seen, *(jnp.where(seen, v, 0.0) for v in (dx, dy, vx, vy, cos, sin, of(state.height), mate * 1.0))]


def _object(state: State, cast: Cast, o: int, params: Params) -> list[Any]:
    """The columns of `OBJECT` for object o, `[A, …]`."""
    seen, owner = state.sight[:, cast.num_agents + o], state.locked_by[o]
    ours = owner == _rows(np.array(cast.teams), state.height)
    values = (
        *(state.object_position[o, i] - state.position[:, i] for i in (0, 1)),
        *(state.object_velocity[o, i] * _SPEED for i in (0, 1)),
        *(state.object_heading[o, i] for i in (0, 1)),
        *(params.object_size[o, i] for i in (0, 1)),
        *(float(cast.is_ramp[o]), (owner >= 0) * 1.0, ours * 1.0, (state.held == o) * 1.0),
    )
    return [seen, *(jnp.where(seen, value, 0.0) for value in values)]


def _centred(place: Any, params: Params) -> Any:
    """Places on the floor as numbers between -1 and 1."""
    return place / (params.floor / 2) - 1


def _clock(state: State, params: Params) -> tuple[Any, Any]:
    """The share of the preparation, and of the episode, that is left."""
    step = state.step.astype(jnp.float32)
    prepares = jnp.maximum(params.preparation - step, 0.0) / jnp.maximum(params.preparation, 1)
    return prepares, 1 - step / params.max_steps


def _rows(values: np.ndarray, like: jax.Array) -> np.ndarray:
    """A constant for each agent, with as many batch axes as `like[A, …]` has."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))


def sight(agents: Agents, objects: Rect, walls: Rect, params: Params) -> jax.Array:
    """Which agents and objects each agent sees, bool `[A, A + O, …]`; nobody sees itself."""
    high = agents.height >= params.high
    x, y = jnp.concatenate([agents.x, objects.x]), jnp.concatenate([agents.y, objects.y])
    above = jnp.concatenate([high, jnp.zeros_like(objects.x, bool)])
    free = line_of_sight(agents.x, agents.y, x, y, objects, walls) | high[:, None] | above
    itself = np.eye(len(agents.x), len(x), dtype=bool)
    itself = itself.reshape(*itself.shape, *(1,) * (agents.x.ndim - 1))
    return free & in_cone(agents, x, y, params) & ~itself


def line_of_sight(x: Any, y: Any, to_x: Any, to_y: Any, objects: Rect, walls: Rect) -> jax.Array:
    """True where nothing lies between each viewer `[A, …]` and each target `[M, …]`, bool `[A, M, …]`.

    Walls and objects block; what contains the viewer or the target's middle does not.
    """
    ends = x[:, None], y[:, None], to_x[None], to_y[None]
    blocked = jnp.zeros(jnp.broadcast_shapes(ends[0].shape, ends[2].shape), bool)
    for rects in (walls, objects):
        for i in range(len(rects.x)):
            blocked |= blocks(rects[i], *ends)
    return ~blocked


def in_cone(agents: Agents, x: jax.Array, y: jax.Array, params: Params) -> jax.Array:
    """True where each target `[M, …]` is in the vision cone of each agent, bool `[A, M, …]`."""
    dx, dy = x - agents.x[:, None], y - agents.y[:, None]
    ahead = agents.cos[:, None] * dx + agents.sin[:, None] * dy
    return ahead >= jnp.cos(params.half_vision) * jnp.sqrt(dx * dx + dy * dy) - 1e-5


def lidar(agents: Agents, objects: Rect, walls: Rect, num_rays: int, params: Params) -> jax.Array:
    """The reach of each of R rays, as a share of the range: `[A, R, …]`.

    Ray k points in the direction 2 pi k / R of the world, not of the agent, as pushes do. Rays end at walls, objects
    and agents; for an agent above them, only at agents and at the wall around the floor.
    """
    angle = 2 * np.pi * np.arange(num_rays) / num_rays
    shape = (num_rays, *(1,) * (agents.x.ndim - 1))
    to_x, to_y = (part.astype(np.float32).reshape(shape) for part in (np.cos(angle), np.sin(angle)))
    x, y = agents.x[:, None], agents.y[:, None]
    reached = params.lidar_range + jnp.zeros_like(x * to_x)
    for rects in (walls, objects):
        for i in range(len(rects.x)):
            reached = jnp.minimum(reached, ray(rects[i], x, y, to_x, to_y))
    reached = jnp.where(agents.height[:, None] >= params.high, params.lidar_range, reached)
    reached = jnp.minimum(reached, _to_border(x, y, to_x, to_y, params))
    for i in range(len(agents.x)):
        to_disc = _to_disc(agents.x[i] - x, agents.y[i] - y, to_x, to_y, params)
        itself = (np.arange(len(agents.x)) == i).reshape(-1, *(1,) * agents.x.ndim)
        reached = jnp.minimum(reached, jnp.where(itself, params.lidar_range, to_disc))
    return reached / params.lidar_range


def _to_border(x: Any, y: Any, to_x: Any, to_y: Any, params: Params) -> Any:
    """The way of rays from within the floor to the wall around it, at least 0."""
    half = params.floor / 2 - params.border
    middle = params.floor / 2
    along_x = (half - (x - middle) * np.sign(to_x)) / np.maximum(abs(to_x), 1e-6)
    along_y = (half - (y - middle) * np.sign(to_y)) / np.maximum(abs(to_y), 1e-6)
    return jnp.maximum(jnp.minimum(along_x, along_y), 0.0)


def _to_disc(dx: Any, dy: Any, to_x: Any, to_y: Any, params: Params) -> Any:
    """The way of rays to an agent whose middle is `(dx, dy)` away."""
    along, across = dx * to_x + dy * to_y, dx * to_y - dy * to_x
    square = params.agent_radius**2 - across * across
    hit = (square > 0) & (along > 0)
    return jnp.where(hit, jnp.maximum(along - jnp.sqrt(jnp.maximum(square, 0.0)), 0.0), params.lidar_range)
