"""The task around a quadrotor: how an episode begins, where the target is, what is sensed, and what a step is worth."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.envs.quadrotor.physics import HoverParams, Motion, State, TrackParams, hover_action, rotation_matrix

__all__ = [
    "MOTION_SIZE",
    "is_lost",
    "lissajous",
    "privileged",
    "random_rotation",
    "reward",
    "sensed",
    "start_disturbance",
    "start_motion",
]

MOTION_SIZE = 18  # position, rotation matrix, velocity, angular velocity


def sensed(state: State, params: HoverParams) -> jax.Array:
    """Position (3), rotation matrix row by row (9), velocity (3), angular velocity (3), all noisy: `[18]`."""
    parts = (params.position_noise, params.rotation_noise, params.velocity_noise, params.angular_velocity_noise)
    deviation = jnp.concatenate(
        [jnp.full(n, 1.0, jnp.float32) * part for n, part in zip((3, 9, 3, 3), parts, strict=True)]
    )
    return _exact(state.motion) + deviation * state.noise


def privileged(state: State, params: HoverParams) -> jax.Array:
    """`sensed` without noise, then force (3) and torque (3) on the drone and its rotors' speeds (4): `[28]`.

    The speeds are from -1 to 1, as actions are.
    """
    share = (state.motion.rpm - params.rpm_min) / (params.rpm_max - params.rpm_min)
    return jnp.concatenate([_exact(state.motion), state.force, state.torque, 2 * share - 1])


def _exact(motion: Motion) -> jax.Array:
    rotation = rotation_matrix(motion.quaternion).reshape(-1)
    return jnp.concatenate([motion.position, rotation, motion.velocity, motion.angular_velocity])


_NEWTON_STEPS = 4


def start_motion(key: jax.Array, params: HoverParams) -> Motion:
    """A random motion close to a target that rests at the origin. Consumes `key`."""
    keys = jax.random.split(key, 3)
    near, turned = jax.random.uniform(keys[0], (4,), jnp.float32), jax.random.uniform(keys[1], (3,), jnp.float32)
    moves = jax.random.uniform(keys[2], (6,), jnp.float32, -1.0)
    at_target = near[3] < params.start_at_target
    position = (2 * near[:3] - 1) * params.start_position
    level = jnp.array([1.0, 0.0, 0.0, 0.0], jnp.float32)
    return Motion(
        position=jnp.where(at_target, 0.0, position),
        quaternion=jnp.where(at_target, level, random_rotation(turned, params.start_angle)),
        velocity=moves[:3] * params.start_velocity,
        angular_velocity=moves[3:] * params.start_angular_velocity,
        rpm=jnp.full(4, 1.0, jnp.float32) * params.start_rpm,
    )


def start_disturbance(key: jax.Array, params: HoverParams) -> tuple[jax.Array, jax.Array]:
    """The constant force and torque of an episode, `[3]` each. Consumes `key`."""
    draws = jax.random.normal(key, (6,), jnp.float32)
    return draws[:3] * params.force_std, draws[3:] * params.torque_std


def random_rotation(draws: jax.Array, most: Any) -> jax.Array:
    """A quaternion `[4]`, uniform among all rotations by an angle of at most `most`, from three draws in [0, 1).

    Among uniform rotations, the density of the angle is proportional to 1 - cos(angle) and the axis is uniform on the
    sphere. So the share of angles below x is (x - sin x) / (most - sin most), and the angle solves x - sin x = share.
    """
    share = draws[0] * (most - jnp.sin(most))
    root = jnp.cbrt(6 * share)
    angle = root + root**3 / 60  # the beginning of the series in the cube root
    for _ in range(_NEWTON_STEPS):
        slope = 2 * jnp.sin(angle / 2) ** 2  # 1 - cos, without cancellation
        angle = angle - (angle - jnp.sin(angle) - share) / jnp.maximum(slope, 1e-6)
    z, around = 2 * draws[1] - 1, 2 * math.pi * draws[2]
    flat = jnp.sqrt(1 - z * z)
    axis = jnp.stack([flat * jnp.cos(around), flat * jnp.sin(around), z])
    return jnp.concatenate([jnp.cos(angle / 2)[None], jnp.sin(angle / 2) * axis])


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
    """True if the drone is too far from the target or too fast, a bool scalar; what is not finite is lost too."""
    kept = jnp.all(jnp.abs(error.position) <= params.position_limit)
    kept &= jnp.all(jnp.abs(error.velocity) <= params.velocity_limit)
    kept &= jnp.all(jnp.abs(error.angular_velocity) <= params.angular_velocity_limit)
    return ~kept


def lissajous(seconds: jax.Array, phase: jax.Array, params: TrackParams) -> tuple[jax.Array, jax.Array]:
    """Position and velocity `[3]` of the target after some seconds; the sine of each axis begins at `phase[3]`."""
    rate = 2 * math.pi / params.period
    angle = rate * seconds + phase
    return params.amplitude * jnp.sin(angle), params.amplitude * rate * jnp.cos(angle)
