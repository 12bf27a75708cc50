"""What robots are, where they are, and what their steps are worth: parameters and state.

The numbers are those of JaxNav (Rutherford et al. 2024, "No Regrets: Investigating and Improving Regret Approximations
for Curriculum Discovery", https://arxiv.org/abs/2408.15099), as in jaxmarl 0.2.0.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

__all__ = ["Params", "State"]


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
