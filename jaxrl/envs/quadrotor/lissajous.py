"""The target of `quadrotor/track`: a point on a Lissajous figure."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from jaxrl.envs.quadrotor.world import TrackParams

__all__ = ["lissajous"]


def lissajous(seconds: jax.Array, phase: jax.Array, params: TrackParams) -> tuple[jax.Array, jax.Array]:
    """Position and velocity `[3]` of the target after some seconds; the sine of each axis begins at `phase[3]`."""
    rate = 2 * math.pi / params.period
    angle = rate * seconds + phase
    return params.amplitude * jnp.sin(angle), params.amplitude * rate * jnp.cos(angle)
