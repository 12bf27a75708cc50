"""How robots move, and what their steps are worth."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrl.envs.jaxnav.geometry import hits_robot, hits_wall, neighbours, wrapped
from jaxrl.envs.jaxnav.world import Params, State

__all__ = ["advance", "reward"]


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
