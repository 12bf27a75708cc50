"""The motion of agents and objects: small steps, each of which ends free of the walls or is not made.

Positions are corrected, not forces summed: a substep moves everybody, then takes overlaps apart, walls last. What then
still overlaps a wall stays where it was, which was free, so nothing ever gets into a wall, nor through it: a substep is
shorter than a wall and a body are thick. A velocity is what was really covered, at most what was intended, so contacts
never add energy. Objects have no momentum of their own: floor friction stops them as soon as nobody moves them.

Arrays are `[A, …]` and `[O, …]`, with any batch axes last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.hide_and_seek.geometry import Rect, contains, disc_out, extents, rect_out, turned, unit
from jaxrl.envs.hide_and_seek.world import Agents, Objects, Params, any_of, total

__all__ = ["SLOP", "SUBSTEPS", "Orders", "Surroundings", "free_agents", "free_objects", "substep"]

SUBSTEPS = 3
_TURN = 0.06  # tangent of half the angle that a held object turns within a substep at most


class Orders(NamedTuple):
    """The orders of agents during a step; constant through its substeps."""

    push_x: jax.Array  # [A, …], newtons
    push_y: jax.Array
    turn: jax.Array  # [A, …], radians per second squared
    holds: jax.Array  # bool [A, O, …]
    grip: jax.Array  # [A, 4, …], see `State.grip`


def substep(
    agents: Agents, objects: Objects, orders: Orders, around: Surroundings, params: Params
) -> tuple[Agents, Objects]:
    """Agents and objects a third of a step later."""
    high = agents.height >= params.high
    moved = _intend(agents, orders, params)
    if objects.x.shape[0]:
        wanted = _carried(moved, objects, orders, params)
        placed, stuck = free_objects(objects, wanted, moved, orders.holds, high, around, params)
        moved = _held_back(agents, moved, wanted, placed, stuck, orders.holds)
        objects = placed
    x, y = free_agents(agents, moved, objects.rect(params), orders.holds, high, around, params)
    span = params.time_step / SUBSTEPS
    vx, vy = _at_most((x - agents.x) / span, (y - agents.y) / span, _length(moved.vx, moved.vy))
    moved = moved._replace(x=x, y=y, vx=vx, vy=vy)
    return moved._replace(height=_height(moved, objects, around, params)), objects


def _intend(agents: Agents, orders: Orders, params: Params) -> Agents:
    """Where agents would go if nothing stood in their way: semi-implicit Euler, which damping cannot make unstable."""
    span = params.time_step / SUBSTEPS
    mass = params.agent_mass + jnp.zeros_like(agents.x)
    if orders.holds.shape[1]:
        hands = jnp.maximum(total(orders.holds.astype(jnp.float32)), 1.0)
        load = orders.holds * (params.object_mass / hands)
        mass += total(jnp.moveaxis(load, 1, 0))
    slow = 1 + params.damping / mass * span
    vx = (agents.vx + orders.push_x / mass * span) / slow
    vy = (agents.vy + orders.push_y / mass * span) / slow
    vx, vy = _at_most(vx, vy, params.max_travel / span)
    spin = (agents.spin + orders.turn * span) / (1 + params.turn_damping * span)
    cos, sin = turned(agents.cos, agents.sin, spin * span / 2)
    x, y = agents.x + vx * span, agents.y + vy * span
    return agents._replace(x=x, y=y, vx=vx, vy=vy, cos=cos, sin=sin, spin=spin)


def _at_most(x: Any, y: Any, most: Any) -> tuple[Any, Any]:
    """A vector, shortened to a length of `most` if it is longer."""
    scale = jnp.minimum(1.0, most / jnp.maximum(_length(x, y), 1e-9))
    return x * scale, y * scale


def _length(x: Any, y: Any) -> Any:
    return jnp.sqrt(x * x + y * y)


def _carried(agents: Agents, objects: Objects, orders: Orders, params: Params) -> Objects:
    """Where held objects would go: after their holder, or halfway between what several holders want."""
    grip = orders.grip
    x = agents.x + agents.cos * grip[:, 0] - agents.sin * grip[:, 1]
    y = agents.y + agents.sin * grip[:, 0] + agents.cos * grip[:, 1]
    cos = agents.cos * grip[:, 2] - agents.sin * grip[:, 3]
    sin = agents.sin * grip[:, 2] + agents.cos * grip[:, 3]
    holds = orders.holds.astype(jnp.float32)
    hands = total(holds)
    share = holds / jnp.maximum(hands, 1.0)
    dx, dy, c, s = (total(share * v[:, None]) for v in (x, y, cos, sin))
    held = hands > 0
    dx, dy = jnp.where(held, dx - objects.x, 0.0), jnp.where(held, dy - objects.y, 0.0)
    dx, dy = _at_most(dx, dy, 1.5 * params.max_travel)
    c, s = unit(c, s)
    cross, dot = objects.cos * s - objects.sin * c, objects.cos * c + objects.sin * s
    half_tan = jnp.clip(jnp.where(held, cross / jnp.maximum(1 + dot, 1e-3), 0.0), -_TURN, _TURN)
    cos, sin = turned(objects.cos, objects.sin, half_tan)
    return Objects(objects.x + dx, objects.y + dy, jnp.where(held, cos, objects.cos), jnp.where(held, sin, objects.sin))


def _held_back(
    before: Agents, moved: Agents, wanted: Objects, placed: Objects, stuck: jax.Array, holds: jax.Array
) -> Agents:
    """Holders go as far as what they hold: they share its correction, and cannot turn what is stuck."""
    pull_x = total(jnp.moveaxis(holds * (placed.x - wanted.x), 1, 0))
    pull_y = total(jnp.moveaxis(holds * (placed.y - wanted.y), 1, 0))
    still = any_of(jnp.moveaxis(holds & stuck, 1, 0))
    return moved._replace(
        x=moved.x + pull_x,
        y=moved.y + pull_y,
        cos=jnp.where(still, before.cos, moved.cos),
        sin=jnp.where(still, before.sin, moved.sin),
        spin=jnp.where(still, 0.0, moved.spin),
    )


def _height(agents: Agents, objects: Objects, around: Surroundings, params: Params) -> jax.Array:
    """On a ramp as high as its floor; over a wall or box as high as before; anywhere else on the way down."""
    x, y = agents.x, agents.y
    fallen = jnp.maximum(agents.height - params.fall_speed * params.time_step / SUBSTEPS, 0.0)
    rects, radius = objects.rect(params), params.agent_radius
    over = around.beyond(x, y, radius)
    over = around.fold(lambda wall, over: over | (disc_out(wall, x, y, radius)[2] > 0), over)
    for o in np.flatnonzero(~around.is_ramp):
        over |= disc_out(rects[o], x, y, radius)[2] > 0
    height = jnp.where(over & (agents.height >= params.high), agents.height, fallen)
    for o in np.flatnonzero(around.is_ramp):
        ramp = rects[o]
        floor = (ramp.local(x, y)[0] / ramp.half_x + 1) / 2
        on_it = contains(ramp, x, y) & (floor <= agents.height + params.climb_step)
        height = jnp.where(on_it, jnp.maximum(height, floor), height)
    return height


Carry = TypeVar("Carry")
SLOP = 0.005
"""An overlap with a wall that counts as none, in metres."""
_OBJECT_ROUNDS, _AGENT_ROUNDS = 2, 3
_TRAVEL = 1.5  # an object may go farther than an agent's `max_travel`, as when it is swung around


class Surroundings(NamedTuple):
    """The things that do not change within a step."""

    walls: Rect  # fields [W, …]
    is_ramp: np.ndarray  # bool [O]
    locked: jax.Array  # bool [O, …]
    low: Any  # the floor's inner edge: coordinates of anything on it lie between `low` and `high`
    high: Any

    def beyond(self, x: Any, y: Any, margin: Any = 0.0) -> Any:
        """True if a point lies over the wall around the floor, or closer to it than `margin`."""
        return (jnp.minimum(x, y) < self.low + margin) | (jnp.maximum(x, y) > self.high - margin)

    def fold(self, step: Callable[[Rect, Carry], Carry], first: Carry) -> Carry:
        """`step(wall, carry)` for one wall after the other; a loop, which keeps the program short."""
        return jax.lax.fori_loop(0, self.walls.x.shape[0], lambda w, carry: step(self.walls[w], carry), first)

    def can_climb(self, rects: Rect, x: Any, y: Any, height: Any, which: Any, params: Params) -> Any:
        """True if objects are ramps whose floor, where a body touches it, is low enough to step on.

        Args:
            rects: The shapes of the objects numbered `which`.
            x: The place of the body.
            y: Likewise.
            height: Its height.
            which: An index.
            params: The constants.
        """
        if not self.is_ramp.any():
            return np.False_
        along = jnp.clip(rects.local(x, y)[0], -rects.half_x, rects.half_x)
        floor = (along / rects.half_x + 1) / 2
        is_ramp = jnp.asarray(_column(self.is_ramp, self.locked))[which]
        return (floor <= height + params.climb_step) & is_ramp


def free_objects(
    before: Objects,
    wanted: Objects,
    agents: Agents,
    holds: jax.Array,
    high: jax.Array,
    around: Surroundings,
    params: Params,
) -> tuple[Objects, jax.Array]:
    """Objects pushed by agents, out of each other and out of the walls; and which of them are stuck, bool `[O, …]`.

    Args:
        before: Where they were, free of the walls.
        wanted: The places to which the agents who hold them pull them.
        agents: Where agents would be.
        holds: Who holds what, bool `[A, O, …]`: no agent pushes what it holds.
        high: Which agents are above all of this, bool `[A, …]`.
        around: Walls and locks.
        params: The constants.
    """
    weight = jnp.where(around.locked, 0.0, params.agent_mass / (params.agent_mass + params.object_mass))
    yields, number = jnp.where(around.locked, 0.0, 1.0), _column(np.arange(len(before.x)), before.x)

    def round_of_pushes(_: Any, place: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        rects = wanted._replace(x=place[0], y=place[1]).rect(params)

        def by_agent(a: Any, move: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            x, y = agents.x[a], agents.y[a]
            dx, dy, _ = disc_out(rects, x, y, params.agent_radius)
            touch = ~holds[a] & ~high[a] & ~around.can_climb(rects, x, y, agents.height[a], slice(None), params)
            share = jnp.where(touch, weight, 0.0)
            return move[0] - share * dx, move[1] - share * dy

        def by_object(o: Any, move: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            dx, dy, _ = rect_out(rects, rects[o])
            share = jnp.where(number == o, 0.0, yields / (yields + yields[o] + 1e-6))
            return move[0] + share * dx, move[1] + share * dy

        move = jax.lax.fori_loop(0, len(agents.x), by_agent, (jnp.zeros_like(rects.x), jnp.zeros_like(rects.y)))
        dx, dy = jax.lax.fori_loop(0, len(before.x), by_object, move)
        return _out_of_walls(wanted._replace(x=rects.x + dx, y=rects.y + dy), around, params)

    x, y = jax.lax.fori_loop(0, _OBJECT_ROUNDS, round_of_pushes, (wanted.x, wanted.y))
    dx, dy = _shortened(x - before.x, y - before.y, _TRAVEL * params.max_travel)
    moved = wanted._replace(x=before.x + dx, y=before.y + dy)
    stuck = _depth_in_walls(moved, around, params) > SLOP
    keep = stuck | around.locked
    return type(before)(*(jnp.where(keep, old, new) for old, new in zip(before, moved, strict=True))), stuck


def free_agents(
    before: Agents,
    wanted: Agents,
    objects: Rect,
    holds: jax.Array,
    high: jax.Array,
    around: Surroundings,
    params: Params,
) -> tuple[jax.Array, jax.Array]:
    """Where agents are once they are out of objects, each other and the walls: `(x, y)`, each `[A, …]`."""
    radius, num_objects = params.agent_radius, objects.x.shape[0]
    number = _column(np.arange(len(before.x)), before.x)

    def out_of_object(o: Any, place: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, y = place
        dx, dy, _ = disc_out(objects[o], x, y, radius)
        touch = ~holds[:, o] & ~high & ~around.can_climb(objects[o], x, y, wanted.height, o, params)
        return x + jnp.where(touch, dx, 0.0), y + jnp.where(touch, dy, 0.0)

    def out_of_agent(i: Any, place: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, y = place
        dx, dy = x - x[i], y - y[i]
        apart = jnp.sqrt(jnp.maximum(dx * dx + dy * dy, 1e-12))
        # Of two agents the second makes way by half, then, when it is its turn, the first by all that is left.
        share = jnp.where(number < i, 1.0, 0.5) * jnp.maximum(2 * radius / apart - 1, 0.0)
        return x + share * dx, y + share * dy

    def round_of_moves(_: Any, place: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        place = jax.lax.fori_loop(0, num_objects, out_of_object, place) if num_objects else place
        x, y = jax.lax.fori_loop(0, len(before.x), out_of_agent, place)
        return _discs_out_of_walls(x, y, high, around, params)

    x, y = jax.lax.fori_loop(0, _AGENT_ROUNDS, round_of_moves, (wanted.x, wanted.y))
    dx, dy = _shortened(x - before.x, y - before.y, params.max_travel)
    x, y = before.x + dx, before.y + dy

    def depth(o: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        passes = around.can_climb(objects[o], x, y, wanted.height, o, params) | holds[:, o]
        return jnp.where(passes, 0.0, disc_out(objects[o], x, y, radius)[2])

    def by_object(o: Any, blocked: jax.Array) -> jax.Array:
        # An object that moved into an agent lets it go.
        return blocked | (depth(o, x, y) > jnp.maximum(depth(o, before.x, before.y), SLOP))

    blocked = around.beyond(x, y, radius - SLOP)
    blocked |= around.fold(lambda wall, deepest: jnp.maximum(deepest, disc_out(wall, x, y, radius)[2]), -x * 0) > SLOP
    blocked = jax.lax.fori_loop(0, num_objects, by_object, blocked) if num_objects else blocked
    stays = blocked & ~high
    return jnp.where(stays, before.x, x), jnp.where(stays, before.y, y)


def _column(rows: np.ndarray, like: jax.Array) -> np.ndarray:
    """Constants with as many batch axes as `like[N, …]` has."""
    return rows.reshape(*rows.shape, *(1,) * (like.ndim - 1))


def _shortened(dx: Any, dy: Any, most: Any) -> tuple[Any, Any]:
    """A way that no body could jump over a wall with."""
    scale = jnp.minimum(1.0, most / jnp.maximum(jnp.sqrt(dx * dx + dy * dy), 1e-9))
    return dx * scale, dy * scale


def _out_of_walls(objects: Objects, around: Surroundings, params: Params) -> tuple[jax.Array, jax.Array]:
    """The places of objects out of one wall after the other, then within the floor."""

    def out(wall: Rect, place: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        dx, dy, _ = rect_out(objects._replace(x=place[0], y=place[1]).rect(params), wall)
        return place[0] + dx, place[1] + dy

    x, y = around.fold(out, (objects.x, objects.y))
    half_x, half_y = extents(objects.rect(params))
    return (
        jnp.clip(x, around.low + half_x, around.high - half_x),
        jnp.clip(y, around.low + half_y, around.high - half_y),
    )


def _depth_in_walls(objects: Objects, around: Surroundings, params: Params) -> jax.Array:
    """The depth of each object in any wall, `[O, …]`."""
    rects = objects.rect(params)
    half_x, half_y = extents(rects)
    x, y = objects.x, objects.y
    depth = jnp.maximum(
        around.low - jnp.minimum(x - half_x, y - half_y), jnp.maximum(x + half_x, y + half_y) - around.high
    )
    return around.fold(lambda wall, deepest: jnp.maximum(deepest, rect_out(rects, wall)[2]), depth)


def _discs_out_of_walls(
    x: jax.Array, y: jax.Array, high: jax.Array, around: Surroundings, params: Params
) -> tuple[jax.Array, jax.Array]:
    """Places of agents out of the walls; those above them only stay over the wall around the floor."""
    radius = params.agent_radius

    def out(wall: Rect, place: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        dx, dy, _ = disc_out(wall, *place, radius)
        return place[0] + jnp.where(high, 0.0, dx), place[1] + jnp.where(high, 0.0, dy)

    x, y = around.fold(out, (x, y))
    outer = jnp.where(high, -params.border, radius)
    return (
        jnp.clip(x, around.low + outer, around.high - outer),
        jnp.clip(y, around.low + outer, around.high - outer),
    )
