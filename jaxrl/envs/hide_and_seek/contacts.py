"""What stands in the way: agents and objects are moved apart, and out of the walls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.hide_and_seek.bodies import Agents, Objects
from jaxrl.envs.hide_and_seek.geometry import Rect, disc_out, extents, rect_out
from jaxrl.envs.hide_and_seek.world import Params

__all__ = ["SLOP", "Surroundings", "free_agents", "free_objects"]

Carry = TypeVar("Carry")
SLOP = 0.005
"""An overlap with a wall that counts as none, in metres."""
_OBJECT_ROUNDS, _AGENT_ROUNDS = 2, 3
_TRAVEL = 1.5  # an object may go farther than an agent's `max_travel`, as when it is swung around


class Surroundings(NamedTuple):
    """What does not change within a step."""

    walls: Rect  # fields [W, …]
    is_ramp: np.ndarray  # bool [O]
    locked: jax.Array  # bool [O, …]
    low: Any  # the floor's inner edge: coordinates of anything on it lie between `low` and `high`
    high: Any

    def beyond(self, x: Any, y: Any, margin: Any = 0.0) -> Any:
        """Whether a point lies over the wall around the floor, or closer to it than `margin`."""
        return (jnp.minimum(x, y) < self.low + margin) | (jnp.maximum(x, y) > self.high - margin)

    def fold(self, step: Callable[[Rect, Carry], Carry], first: Carry) -> Carry:
        """`step(wall, carry)` for one wall after the other; a loop, which keeps the program short."""
        return jax.lax.fori_loop(0, self.walls.x.shape[0], lambda w, carry: step(self.walls[w], carry), first)

    def can_climb(self, rects: Rect, x: Any, y: Any, height: Any, which: Any, params: Params) -> Any:
        """Whether objects are ramps whose floor, where a body touches it, is low enough to step on.

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
    """How deep each object is in any wall, `[O, …]`."""
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
