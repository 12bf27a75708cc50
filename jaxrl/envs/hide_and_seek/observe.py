"""What the networks read: one vector for each agent, and one of the whole world for a central critic.

Batch axes come last: vectors are `[A, D, …]`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities, Group
from jaxrl.envs.hide_and_seek.bodies import Agents, Objects
from jaxrl.envs.hide_and_seek.geometry import FAR, Rect
from jaxrl.envs.hide_and_seek.senses import lidar
from jaxrl.envs.hide_and_seek.world import HALF_SIZES, HIDER, SEEKER, Cast, Params, State

__all__ = [
    "OBJECT",
    "OTHER",
    "OWN",
    "agents_of",
    "entities",
    "global_state",
    "objects_of",
    "observation",
    "observation_size",
    "state_entities",
    "walls_of",
]

OWN = ("x", "y", "vx", "vy", "cos", "sin", "spin", "height", "holds", "prepares", "time_left", "is_seeker")
"""What an agent knows of itself."""
OTHER = ("seen", "dx", "dy", "vx", "vy", "cos", "sin", "height", "is_mate")
"""What it sees of another agent; all 0 if it does not see it."""
OBJECT = (
    *("seen", "dx", "dy", "vx", "vy", "cos", "sin", "half_length", "half_width"),
    *("is_ramp", "is_locked", "is_locked_by_us", "is_held_by_me"),
)
"""What it sees of an object; all 0 if it does not see it."""
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
    """What `observation` is made of: other agents and the objects of each kind, absent while they are not seen."""
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
    """What `global_state` is made of: the agents of each team, the objects of each kind, walls and doors.

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
    """How many objects of each kind there are, in their order."""
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
