"""How agents and objects move: small steps, each of which ends free of the walls or is not made.

Positions are corrected, not forces summed: a substep moves everybody, then takes overlaps apart, walls last. What then
still overlaps a wall stays where it was, which was free, so nothing ever gets into a wall, nor through it: a substep is
shorter than a wall and a body are thick. A velocity is what was really covered, at most what was intended, so contacts
never add energy. Objects have no momentum of their own: floor friction stops them as soon as nobody moves them.

Arrays are `[A, …]` and `[O, …]`, with any batch axes last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.hide_and_seek.bodies import Agents, Objects, any_of, total
from jaxrl.envs.hide_and_seek.contacts import Surroundings, free_agents, free_objects
from jaxrl.envs.hide_and_seek.geometry import contains, disc_out, turned, unit
from jaxrl.envs.hide_and_seek.world import Params

__all__ = ["SUBSTEPS", "Orders", "substep"]

SUBSTEPS = 3
_TURN = 0.06  # tangent of half the angle that a held object turns within a substep at most


class Orders(NamedTuple):
    """What agents do during a step; constant through its substeps."""

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
