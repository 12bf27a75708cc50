"""What the drone senses, and what a critic may know besides."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxrl.envs.quadrotor.physics import rotation_matrix
from jaxrl.envs.quadrotor.world import HoverParams, Motion, State

__all__ = ["MOTION_SIZE", "privileged", "sensed"]

MOTION_SIZE = 18  # position, rotation matrix, velocity, angular velocity


def sensed(state: State, params: HoverParams) -> jax.Array:
    """Position (3), rotation matrix row by row (9), velocity (3), angular velocity (3), all noisy: `[18]`."""
    parts = (params.position_noise, params.rotation_noise, params.velocity_noise, params.angular_velocity_noise)
    deviation = jnp.concatenate(
        [jnp.full(n, 1.0, jnp.float32) * part for n, part in zip((3, 9, 3, 3), parts, strict=True)]
    )
    return _exact(state.motion) + deviation * state.noise


def privileged(state: State, params: HoverParams) -> jax.Array:
    """What `sensed` has, without noise, then force (3) and torque (3) on the drone and its rotors' speeds (4): `[28]`.

    The speeds are from -1 to 1, as actions are.
    """
    share = (state.motion.rpm - params.rpm_min) / (params.rpm_max - params.rpm_min)
    return jnp.concatenate([_exact(state.motion), state.force, state.torque, 2 * share - 1])


def _exact(motion: Motion) -> jax.Array:
    rotation = rotation_matrix(motion.quaternion).reshape(-1)
    return jnp.concatenate([motion.position, rotation, motion.velocity, motion.angular_velocity])
