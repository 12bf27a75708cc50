"""What agents see: a cone with free lines of sight, and lidar all around. Batch axes come last."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.hide_and_seek.bodies import Agents
from jaxrl.envs.hide_and_seek.geometry import Rect, blocks, ray
from jaxrl.envs.hide_and_seek.world import Params

__all__ = ["in_cone", "lidar", "line_of_sight", "sight"]


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
    """Whether nothing lies between each viewer `[A, …]` and each target `[M, …]`, bool `[A, M, …]`.

    Walls and objects block; what contains the viewer or the target's middle does not.
    """
    ends = x[:, None], y[:, None], to_x[None], to_y[None]
    blocked = jnp.zeros(jnp.broadcast_shapes(ends[0].shape, ends[2].shape), bool)
    for rects in (walls, objects):
        for i in range(len(rects.x)):
            blocked |= blocks(rects[i], *ends)
    return ~blocked


def in_cone(agents: Agents, x: jax.Array, y: jax.Array, params: Params) -> jax.Array:
    """Whether each target `[M, …]` is in the vision cone of each agent, bool `[A, M, …]`."""
    dx, dy = x - agents.x[:, None], y - agents.y[:, None]
    ahead = agents.cos[:, None] * dx + agents.sin[:, None] * dy
    return ahead >= jnp.cos(params.half_vision) * jnp.sqrt(dx * dx + dy * dy) - 1e-5


def lidar(agents: Agents, objects: Rect, walls: Rect, num_rays: int, params: Params) -> jax.Array:
    """How far each of R rays gets, as a share of the range: `[A, R, …]`.

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
    """How far rays from within the floor get to the wall around it, at least 0."""
    half = params.floor / 2 - params.border
    middle = params.floor / 2
    along_x = (half - (x - middle) * np.sign(to_x)) / np.maximum(abs(to_x), 1e-6)
    along_y = (half - (y - middle) * np.sign(to_y)) / np.maximum(abs(to_y), 1e-6)
    return jnp.maximum(jnp.minimum(along_x, along_y), 0.0)


def _to_disc(dx: Any, dy: Any, to_x: Any, to_y: Any, params: Params) -> Any:
    """How far rays get to an agent whose middle is `(dx, dy)` away."""
    along, across = dx * to_x + dy * to_y, dx * to_y - dy * to_x
    square = params.agent_radius**2 - across * across
    hit = (square > 0) & (along > 0)
    return jnp.where(hit, jnp.maximum(along - jnp.sqrt(jnp.maximum(square, 0.0)), 0.0), params.lidar_range)
