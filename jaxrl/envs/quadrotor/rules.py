"""What a step is worth, and when an episode is lost."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl.envs.quadrotor.physics import hover_action
from jaxrl.envs.quadrotor.world import HoverParams, Motion

__all__ = ["is_lost", "reward"]


def reward(error: Motion, action: jax.Array, params: HoverParams) -> jax.Array:
    """The reward of an action, a scalar.

    Args:
        error: The motion before the action; position and velocity relative to the target's.
        action: `[4]`, clipped.
        params: The weights.
    """
    cost = (
        params.position_cost * jnp.sum(error.position**2)
        + params.tilt_cost * (1 - error.quaternion[0] ** 2)
        + params.velocity_cost * jnp.sum(error.velocity**2)
        + params.action_cost * jnp.sum((action - hover_action(params)) ** 2)
    )
    return params.reward_alive - params.reward_scale * cost


def is_lost(error: Motion, params: HoverParams) -> jax.Array:
    """Whether the drone is too far from the target or too fast, a bool scalar; what is not finite is lost too."""
    kept = jnp.all(jnp.abs(error.position) <= params.position_limit)
    kept &= jnp.all(jnp.abs(error.velocity) <= params.velocity_limit)
    kept &= jnp.all(jnp.abs(error.angular_velocity) <= params.angular_velocity_limit)
    return ~kept
