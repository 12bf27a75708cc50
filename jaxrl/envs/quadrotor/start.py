"""The beginning of an episode: where the drone is and how it moves, and what pushes it until the end."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.envs.quadrotor.world import HoverParams, Motion

__all__ = ["random_rotation", "start_disturbance", "start_motion"]

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
