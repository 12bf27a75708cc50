"""The rules of the game: who may act, grabbing and locking, passing through doors, what is rewarded, what is counted.

Arrays are `[A, …]`, `[O, …]` or `[A, O, …]`, with any batch axes last.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.hide_and_seek.geometry import FAR, Rect, contains, disc_out
from jaxrl.envs.hide_and_seek.observe import objects_of, walls_of
from jaxrl.envs.hide_and_seek.world import HIDER, SEEKER, Agents, Cast, Objects, Params, State, Tally, any_of, total

__all__ = [
    "PHASES",
    "acting",
    "counted",
    "distances",
    "doors_blocked",
    "gripped",
    "holding",
    "info",
    "let_go",
    "locking",
    "moved",
    "nearest",
    "outside",
    "reward",
    "seen",
    "use",
]

PHASES = ("preparation", "hunt")


def acting(step: jax.Array, cast: Cast, params: Params) -> jax.Array:
    """Who may act at this step, bool `[A, …]`: seekers wait until the preparation is over."""
    hider = np.equal(cast.teams, HIDER).reshape(-1, *(1,) * step.ndim)
    return hider | (step >= params.preparation)


def seen(state: State, cast: Cast) -> jax.Array:
    """True where any seeker sees any hider, bool `[…]`."""
    hiders, seekers = range(cast.num_hiders), range(cast.num_hiders, cast.num_agents)
    return any_of([state.sight[s, h] for s in seekers for h in hiders])


def outside(state: State, params: Params) -> jax.Array:
    """Which agents are over the wall around the floor, bool `[A, …]`."""
    x, y = state.position[:, 0], state.position[:, 1]
    return (jnp.minimum(x, y) < params.border) | (jnp.maximum(x, y) > params.floor - params.border)


def reward(state: State, step: jax.Array, cast: Cast, params: Params) -> jax.Array:
    """float32 `[A, …]` for the state after step number `step`: 0 in the preparation.

    Then 1 for hiders and -1 for seekers if nobody is seen, otherwise the reverse; and every agent that is outside costs
    its whole team `leave_penalty`, since the members of a team share their reward.
    """
    gain = jnp.where(seen(state, cast), -1.0, 1.0)
    out = outside(state, params).astype(jnp.float32)
    hiders = gain - params.leave_penalty * total(out[: cast.num_hiders])
    seekers = -gain - params.leave_penalty * total(out[cast.num_hiders :])
    each = jnp.stack([hiders] * cast.num_hiders + [seekers] * cast.num_seekers)
    return jnp.where(step < params.preparation, 0.0, each).astype(jnp.float32)


def moved(state: State, agents: Agents, objects: Objects, params: Params) -> State:
    """The state with everybody at a new place."""
    place = jnp.stack([objects.x, objects.y], 1)
    return dataclasses.replace(
        state,
        position=jnp.stack([agents.x, agents.y], 1),
        velocity=jnp.stack([agents.vx, agents.vy], 1),
        heading=jnp.stack([agents.cos, agents.sin], 1),
        spin=agents.spin,
        height=agents.height,
        object_position=place,
        object_heading=jnp.stack([objects.cos, objects.sin], 1),
        object_velocity=(place - state.object_position) / params.time_step,
    )


def counted(before: State, state: State, cast: Cast, params: Params) -> State:
    """The state with the step from `before` in its tally."""
    hunting = before.step >= params.preparation
    phase = jnp.stack([~hunting, hunting])
    way = jnp.sqrt(jnp.square(state.object_position - before.object_position).sum(1))
    locked = (state.locked_by >= 0).astype(jnp.float32)
    groups = [np.flatnonzero(cast.is_ramp == ramp) for ramp in (False, True)]
    climbs = (state.height >= params.high) & (before.height < params.high)
    old = before.tally
    tally = Tally(
        seen=old.seen + (hunting & seen(state, cast)),
        moved=old.moved + jnp.where(phase[:, None], _by_group(way, groups), 0.0),
        locked=jnp.where(phase[:, None], _by_group(locked, groups), old.locked),
        climbs=old.climbs + jnp.where(phase, total(climbs.astype(jnp.float32)), 0.0),
    )
    return dataclasses.replace(state, tally=tally)


def _by_group(values: jax.Array, groups: list[np.ndarray]) -> jax.Array:
    """The sums `[G, …]` of `values[O, …]` over each group."""
    nothing = jnp.zeros(values.shape[1:], jnp.float32)
    return jnp.stack([sum((values[o] for o in group), nothing) for group in groups])


def info(state: State, params: Params) -> dict[str, jax.Array]:
    """The facts that training logs can show (`log_info`): float32 numbers that are right at the end of an episode.

    `seen_fraction` of the hunt so far, `doors_blocked` (of the open doors, the share that nobody gets through now), and
    for both phases metres that boxes and ramps moved, how many were locked in the end, and climbs to the top of a ramp.
    """
    tally = state.tally
    hunted = jnp.maximum(state.step - params.preparation, 1).astype(jnp.float32)
    told: dict[str, Any] = {"seen_fraction": tally.seen / hunted, "doors_blocked": doors_blocked(state, params)}
    for p, phase in enumerate(PHASES):
        for g, group in enumerate(("boxes", "ramps")):
            told[f"{group}_moved_{phase}"] = tally.moved[p, g]
            told[f"{group}_locked_{phase}"] = tally.locked[p, g]
        told[f"ramps_used_{phase}"] = tally.climbs[p]
    return told


def use(
    state: State, agents: Agents, objects: Objects, asks: jax.Array, acting: jax.Array, cast: Cast, params: Params
) -> tuple[State, jax.Array]:
    """Grab and lock as agents ask, bool `[A, 2, …]`, with what they saw: the state, and who holds what `[A, O, …]`."""
    rects = objects.rect(params)
    grabs, locks = asks[:, 0] & acting, asks[:, 1] & acting
    near = nearest(distances(agents.x, agents.y, rects), state.sight[:, cast.num_agents :], params)
    old = holding(state.held, cast.num_objects)
    attends = old | near & (state.held < 0)[:, None]
    locked_by = locking(state.locked_by, attends, locks, acting, cast.num_hiders)
    free = (state.locked_by < 0) & (locked_by < 0)  # what has just been opened can be taken in the next step
    holds = attends & grabs[:, None] & free
    new = any_of(jnp.moveaxis(holds & ~old, 1, 0))
    grip = jnp.where(new[:, None], gripped(agents.x, agents.y, agents.cos, agents.sin, rects, holds), state.grip)
    return dataclasses.replace(state, locked_by=locked_by, held=_number(holds), grip=grip), holds


def let_go(state: State, agents: Agents, objects: Objects, holds: jax.Array, params: Params) -> State:
    """The state without the grips that are stretched too far."""
    far = distances(agents.x, agents.y, objects.rect(params)) > params.grip_length * params.reach
    return dataclasses.replace(state, held=_number(holds & ~far))


def _number(holds: jax.Array) -> jax.Array:
    """The object that each agent holds, or -1: int32 `[A, …]`."""
    held = jnp.full_like(holds[:, 0], -1, jnp.int32)
    for o in range(holds.shape[1]):
        held = jnp.where(holds[:, o], o, held)
    return held


def distances(x: jax.Array, y: jax.Array, objects: Rect) -> jax.Array:
    """From the middle of each agent to the surface of each object, 0 inside: `[A, O, …]`."""
    return jnp.maximum(-disc_out(objects, x[:, None], y[:, None], 0.0)[2], 0.0)


def nearest(distance: jax.Array, seen: jax.Array, params: Params) -> jax.Array:
    """The object nearest to each agent among those that it sees and can reach, bool `[A, O, …]`, at most one each."""
    distance = jnp.where(seen & (distance <= params.reach), distance, FAR)
    closest, found = jnp.full_like(distance[:, 0], FAR), []
    for o in range(distance.shape[1]):  # the first of several that are equally near
        found.append(distance[:, o] < closest)
        closest = jnp.minimum(closest, distance[:, o])
    taken, chosen = jnp.zeros_like(found[0]), []
    for better in reversed(found):
        chosen.append(better & ~taken)
        taken = taken | better
    return jnp.stack(chosen[::-1], 1)


def holding(held: jax.Array, num_objects: int) -> jax.Array:
    """Who holds what, bool `[A, O, …]`, from `held[A, …]`."""
    number = np.arange(num_objects).reshape(num_objects, *(1,) * (held.ndim - 1))
    return held[:, None] == number


def gripped(x: Any, y: Any, cos: Any, sin: Any, objects: Rect, holds: jax.Array) -> jax.Array:
    """The place and heading of what each agent holds, as seen from it: `[A, 4, …]`, zeros without an object."""
    dx, dy = objects.x - x[:, None], objects.y - y[:, None]
    c, s = cos[:, None], sin[:, None]
    parts = (
        c * dx + s * dy,
        c * dy - s * dx,
        c * objects.cos + s * objects.sin,
        c * objects.sin - s * objects.cos,
    )
    kept = [jnp.moveaxis(jnp.where(holds, part, 0.0), 1, 0).sum(0) for part in parts]
    return jnp.stack(kept, 1)


def locking(locked_by: jax.Array, attends: jax.Array, asks: jax.Array, acting: jax.Array, num_hiders: int) -> jax.Array:
    """The owner of each object's lock after this step, int32 `[O, …]`.

    A team locks a free object if all of its agents that attend to the object ask for it, and opens its own lock if none
    of them does. Where both teams would lock it, neither does; the other team's lock cannot be opened.

    Args:
        locked_by: The owner before, -1 for none.
        attends: Which object each agent holds, or else could reach, bool `[A, O, …]`.
        asks: Who asks for locks, bool `[A, …]`.
        acting: Who can act at all, bool `[A, …]`.
        num_hiders: The first agents are hiders.
    """
    attends = attends & acting[:, None]
    locks, opens = [], []
    for team in (slice(0, num_hiders), slice(num_hiders, None)):
        present, dissent = any_of(attends[team]), any_of(attends[team] & ~asks[team, None])
        assent = any_of(attends[team] & asks[team, None])
        locks.append(present & ~dissent)
        opens.append(present & ~assent)
    free = locked_by < 0
    owner = jnp.where(free & locks[HIDER] & ~locks[SEEKER], HIDER, locked_by)
    owner = jnp.where(free & locks[SEEKER] & ~locks[HIDER], SEEKER, owner)
    opened = (locked_by == HIDER) & opens[HIDER] | (locked_by == SEEKER) & opens[SEEKER]
    return jnp.where(opened, -1, owner).astype(jnp.int32)


_LINES, _PLACES = 9, 13  # across the way through a door, and places on each of them
_NEAR = 0.95  # the outermost lines, in radii from the wall; at 1 the door's posts are no limit any more
_BESIDE = 0.02  # metres


def doors_blocked(state: State, params: Params) -> jax.Array:
    """The share of open doors that are too narrow for an agent, or blocked by objects in or close to them: float32.

    Lines parallel to the wall cross the way through a door, some before it and some behind. On each, the posts leave an
    agent's centre only so much room, and where objects leave it no place on some line, nobody passes. Objects that
    only block the way together, on no single line, do not count.
    """
    rects, walls = objects_of(state).rect(params), walls_of(state)
    along, across = _places(params, state.step.ndim)
    count = blocked = jnp.zeros(state.step.shape, jnp.float32)
    for door in range(state.doors.shape[0]):
        x, y, is_open = state.doors[door]
        upright = contains(walls, x, y + params.door_width / 2 + _BESIDE).any(0)  # its wall goes on above it
        places = x + jnp.where(upright, across, along), y + jnp.where(upright, along, across)
        taken = jnp.broadcast_to(params.door_width < 2 * params.agent_radius, places[0].shape)
        for o in range(state.locked_by.shape[0]):
            taken |= disc_out(rects[o], *places, params.agent_radius)[2] > 0
        count, blocked = count + is_open, blocked + is_open * taken.all(1).any(0)
    return blocked / jnp.maximum(count, 1.0)


def _places(params: Params, batch_axes: int) -> tuple[jax.Array, jax.Array]:
    """Where an agent's centre can be on each line, from the door's middle: along and across the wall, `[L, P, …]`."""
    ones = (1,) * batch_axes
    line = np.linspace(-1, 1, _LINES, dtype=np.float32).reshape(-1, 1, *ones)
    place = np.linspace(-1, 1, _PLACES, dtype=np.float32).reshape(1, -1, *ones)
    wall, radius = params.wall_thickness / 2, params.agent_radius
    across = line * (wall + _NEAR * radius)
    beyond = jnp.maximum(abs(across) - wall, 0.0)  # how far the line is from the posts
    room = params.door_width / 2 - jnp.sqrt(radius * radius - beyond * beyond)
    return place * room, across + 0.0 * place
