"""The robots' parameters and state, how they move among squares, circles and rays, and what their steps are worth.

The numbers are those of JaxNav (Rutherford et al. 2024, "No Regrets: Investigating and Improving Regret Approximations
for Curriculum Discovery", https://arxiv.org/abs/2408.15099), as in jaxmarl 0.2.0.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

__all__ = [
    "FARTHEST",
    "Params",
    "State",
    "advance",
    "circle_is_free",
    "distance_to_squares",
    "distance_to_walls",
    "hits_robot",
    "hits_wall",
    "neighbours",
    "reward",
    "wrapped",
]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """Robots, rewards and random starts, in metres, seconds and radians."""

    time_step: Any = 0.1
    max_speed: Any = 1.0
    max_turn: Any = 0.6
    """Radians per second."""
    max_acceleration: Any = 1.0
    max_turn_acceleration: Any = 1.0
    half_width: Any = 0.25
    """Half the side of a robot, which is a square; at most 0.7."""
    goal_radius: Any = 0.5

    reward_goal: Any = 4.0
    """Once, on arrival."""
    reward_progress: Any = 0.25
    """For each metre closer to the goal, until arrival."""
    reward_crash: Any = -4.0
    reward_step: Any = -0.01
    """Until a robot has arrived or crashed."""
    reward_near: Any = -0.1
    """While something is nearer than `near_distance`; for what has crashed, too."""
    near_distance: Any = 0.4
    own_share: Any = 0.5
    """A robot's reward is this share of its own, and the rest of the mean over all robots."""

    fill: Any = 0.3
    """Of random maps: the share of cells that are walls at most; how many are, is drawn."""
    start_clearance: Any = 0.45
    """Of random maps: how far from walls a robot starts; other robots are twice as far."""
    goal_clearance: Any = 0.3
    """Likewise for goals, except that they are twice `start_clearance` apart."""
    least_distance: Any = 1.3
    """Of random maps: the least distance from a start to its goal, before walls around the map shorten it."""
    max_steps: Any = 500


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """Where everything is. Cell `walls[y, x]` is the square from (x, y) to (x + 1, y + 1), metres."""

    position: jax.Array
    """`[N, 2]`, x and y."""
    heading: jax.Array
    """`[N]`, from -pi to pi; 0 is along x."""
    velocity: jax.Array
    """`[N, 2]`: forwards (m/s), and the turn to the left (rad/s)."""
    crashed: jax.Array
    """bool `[N]`; who has crashed stays where it is, in the way of others."""
    arrived: jax.Array
    """bool `[N]`: who has been at its goal."""
    goal: jax.Array
    """`[N, 2]`."""
    walls: jax.Array
    """bool `[H, W]`; all cells on the edge are walls."""
    step: jax.Array
    """int32."""


FARTHEST = 15
"""The reach of a ray: its surroundings in one direction are the 31 bits of an integer."""

_AROUND = np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1]), -1).reshape(9, 2)  # a cell and its neighbours, x and y
_FLAT = 1e-7  # directions nearer to an axis than this never cross its lines


def wrapped(angle: ArrayLike) -> jax.Array:
    """The same angle from -pi to pi."""
    return (jnp.asarray(angle) + math.pi) % (2 * math.pi) - math.pi


def neighbours(walls: jax.Array) -> jax.Array:
    """For each cell which of it and the eight around it are walls, as bits: int32 `[H, W]`.

    A cell's surroundings are one look-up this way, and look-ups are what takes time on a CPU.
    """
    padded = jnp.pad(walls, 1, constant_values=True).astype(jnp.int32)
    height, width = walls.shape
    shifted = [padded[1 + y : 1 + y + height, 1 + x : 1 + x + width] << bit for bit, (x, y) in enumerate(_AROUND)]
    return sum(shifted[1:], shifted[0])


def hits_wall(position: jax.Array, heading: jax.Array, half_width: jax.Array, around: jax.Array) -> jax.Array:
    """True if a square overlaps a wall, bool.

    Args:
        position: Its centre `[2]`, whose cell's neighbours are as far as it reaches.
        heading: Its direction.
        half_width: Half its side.
        around: The `neighbours` of all cells.
    """
    cells, is_wall = _cells_around(position, around)
    return jnp.any(is_wall & _squares_overlap(cells + 0.5 - position, heading, half_width, 0.0, 0.5))


def hits_robot(position: jax.Array, heading: jax.Array, half_width: jax.Array) -> jax.Array:
    """Which of N squares of one size overlap any other, bool `[N]`, for `position[N, 2]` and `heading[N]`."""
    offset = position[None] - position[:, None]
    overlap = _squares_overlap(offset, heading[:, None], half_width, heading[None], half_width)
    return jnp.any(overlap & ~np.eye(len(heading), dtype=bool), axis=1)


def circle_is_free(center: jax.Array, radius: jax.Array, around: jax.Array) -> jax.Array:
    """True if a circle with the centre `[2]` and a radius of at most 1 touches no wall, bool; see `hits_wall`."""
    cells, is_wall = _cells_around(center, around)
    away = jnp.maximum(jnp.abs(cells + 0.5 - center) - 0.5, 0.0)
    return ~jnp.any(is_wall & (jnp.sum(away**2, axis=-1) <= radius**2))


def distance_to_walls(position: jax.Array, angle: ArrayLike, walls: jax.Array, reach: float) -> jax.Array:
    """The way of rays from `position[2]` in the directions `angle[R]` before a wall, `[R]`, at most `reach`.

    A ray enters a cell where it crosses a line between two columns or two rows, so only these points are looked at.
    Which lines they can be is the same for all rays, so each line's cells are the bits of a number.
    """
    lines = math.ceil(reach)
    cell = jnp.floor(position)
    corner = cell.astype(jnp.int32)
    padded = jnp.pad(walls, lines, constant_values=True)
    window = jax.lax.dynamic_slice(padded, (corner[1], corner[0]), (2 * lines + 1, 2 * lines + 1))
    direction = jnp.stack([jnp.cos(angle), jnp.sin(angle)])  # [2, R]
    nearest = jnp.full(np.shape(angle), reach, jnp.float32)
    ahead = np.arange(lines, dtype=np.int32)[:, None]  # [L, 1]
    for axis, entered in enumerate((_line_bits(window.T), _line_bits(window))):
        along, across = direction[axis], direction[1 - axis]
        forwards, crosses = along > 0, jnp.abs(along) > _FLAT
        line = cell[axis] + jnp.where(forwards, ahead + 1, -ahead)  # [L, R]
        distance = (line - position[axis]) / jnp.where(crosses, along, 1.0)
        beside = jnp.floor(position[1 - axis] + distance * across) - cell[1 - axis] + lines
        beside = jnp.clip(beside, 0, 2 * lines).astype(jnp.int32)
        cells = jnp.where(forwards, entered[lines + 1 :, None], entered[lines - 1 :: -1, None])
        hit = crosses & ((cells >> beside) & 1).astype(bool)
        nearest = jnp.minimum(nearest, jnp.min(jnp.where(hit, distance, reach), axis=0))
    return nearest


def distance_to_squares(
    position: jax.Array, angle: jax.Array, center: jax.Array, heading: jax.Array, half_width: jax.Array, reach: float
) -> jax.Array:
    """The way of rays before each of N squares, `[N, R]`, at most `reach`.

    Args:
        position: Where all rays begin, `[2]`.
        angle: Their directions, `[R]`.
        center: The centres of the squares, `[N, 2]`.
        heading: The directions of the squares, `[N]`.
        half_width: Half their side.
        reach: The length of a ray.
    """
    x, y = _turned(position - center, -heading)  # where the rays begin, from each square's point of view
    turned = angle[None] - heading[:, None]
    enter, leave = -jnp.inf, jnp.inf
    for start, along in ((x, jnp.cos(turned)), (y, jnp.sin(turned))):
        along = jnp.where(jnp.abs(along) > _FLAT, along, _FLAT)
        sides = (-half_width - start[:, None]) / along, (half_width - start[:, None]) / along
        enter, leave = jnp.maximum(enter, jnp.minimum(*sides)), jnp.minimum(leave, jnp.maximum(*sides))
    hit = (enter <= leave) & (leave >= 0)
    return jnp.where(hit, jnp.clip(enter, 0.0, reach), reach)


def _squares_overlap(
    offset: jax.Array, angle_a: jax.Array, half_a: jax.Array, angle_b: jax.Array | float, half_b: jax.Array | float
) -> jax.Array:
    """True if squares overlap, `[…]`: no side of either has the other one beyond it (the separating axis theorem).

    Args:
        offset: From the centre of a to that of b, `[…, 2]`.
        angle_a: The direction of a, `[…]`, and so on.
        half_a: Half the side of a.
        angle_b: The direction of b.
        half_b: Half the side of b.
    """
    between = angle_b - angle_a
    stretch = jnp.abs(jnp.cos(between)) + jnp.abs(jnp.sin(between))  # of one, seen along the other's sides
    overlap = True
    for angle, own, other in ((angle_a, half_a, half_b), (angle_b, half_b, half_a)):
        for distance in _turned(offset, -angle):
            overlap &= jnp.abs(distance) <= own + other * stretch
    return jnp.asarray(overlap)


def _turned(vector: jax.Array, angle: jax.Array | float) -> tuple[jax.Array, jax.Array]:
    """X and y of vectors `[…, 2]` that are turned to the left."""
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return cos * vector[..., 0] - sin * vector[..., 1], sin * vector[..., 0] + cos * vector[..., 1]


def _cells_around(position: jax.Array, around: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The cell of a point inside the map and its neighbours, x and y `[9, 2]`, and which are walls, `[9]`."""
    cell = jnp.floor(position).astype(jnp.int32)
    code = around[cell[1], cell[0]]
    return cell + _AROUND, ((code >> np.arange(9, dtype=np.int32)) & 1).astype(bool)


def _line_bits(cells: jax.Array) -> jax.Array:
    """The cells `[K, K]` of each row as the bits of a number, int32 `[K]`."""
    return jnp.sum(cells.astype(jnp.int32) << np.arange(cells.shape[1], dtype=np.int32), axis=1)


def advance(state: State, order: jax.Array, params: Params) -> State:
    """The state after a step.

    Args:
        state: Before it.
        order: The velocities that robots head for, `[N, 2]`.
        params: The robots'.
    """
    most = jnp.stack([params.max_acceleration, params.max_turn_acceleration]) * params.time_step
    velocity = state.velocity + jnp.clip(order - state.velocity, -most, most)
    velocity = jnp.stack(
        [jnp.clip(velocity[:, 0], 0.0, params.max_speed), jnp.clip(velocity[:, 1], -params.max_turn, params.max_turn)],
        axis=1,
    )
    way = velocity[:, :1] * params.time_step * jnp.stack([jnp.cos(state.heading), jnp.sin(state.heading)], axis=1)
    still = state.crashed
    position = jnp.where(still[:, None], state.position, state.position + way)
    heading = jnp.where(still, state.heading, wrapped(state.heading + velocity[:, 1] * params.time_step))
    crashes = jax.vmap(hits_wall, (0, 0, None, None))(position, heading, params.half_width, neighbours(state.walls))
    crashes |= hits_robot(position, heading, params.half_width)
    return dataclasses.replace(
        state,
        position=position,
        heading=heading,
        velocity=jnp.where(still[:, None], 0.0, velocity),
        crashed=state.crashed | crashes,
        arrived=state.arrived | (jnp.linalg.norm(position - state.goal, axis=1) <= params.goal_radius),
        step=state.step + 1,
    )


def reward(before: State, after: State, nearest: jax.Array, params: Params) -> jax.Array:
    """The reward of each robot for a step, float32 `[N]`.

    Args:
        before: The state before the step.
        after: The state after it.
        nearest: How near the nearest thing is to each robot's centre, by lidar after the step, `[N]`.
        params: The weights.
    """
    was, now = (jnp.linalg.norm(each.position - each.goal, axis=1) for each in (before, after))
    goal = jnp.where(after.arrived, params.reward_goal, params.reward_progress * (was - now))
    own = (
        jnp.where(before.arrived, 0.0, goal)
        + params.reward_crash * (after.crashed & ~before.crashed)
        + params.reward_step * ~(before.arrived | before.crashed)
        + params.reward_near * (nearest <= params.near_distance)
    )
    return params.own_share * own + (1 - params.own_share) * own.mean()
