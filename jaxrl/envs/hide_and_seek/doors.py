"""Whether agents get through doors. Batch axes come last."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.hide_and_seek.geometry import contains, disc_out
from jaxrl.envs.hide_and_seek.observe import objects_of, walls_of
from jaxrl.envs.hide_and_seek.world import Params, State

__all__ = ["doors_blocked"]

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
