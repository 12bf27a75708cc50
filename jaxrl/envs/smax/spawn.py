"""Where units stand when a battle begins. Arrays are `[N, …]` with batch axes behind, as in `dynamics`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.smax.dynamics import Bodies, Field, separate
from jaxrl.envs.smax.units import UnitStats

__all__ = ["fixed_spawn", "new_bodies"]

_JITTER = 2.0  # map units, each way


def fixed_spawn(uniform: jax.Array, num_allies: int, field: Field) -> tuple[jax.Array, jax.Array]:
    """Allies around the middle of the left half, enemies of the right one: `(x, y)`, each `[N, …]`.

    `uniform[2, N, …]` holds draws in [0, 1).
    """
    jitter = (2.0 * uniform - 1.0) * _JITTER
    is_enemy = np.arange(uniform.shape[1]) >= num_allies
    quarter = np.where(is_enemy, 0.75, 0.25).reshape((-1,) + (1,) * (uniform.ndim - 2))
    return field.width * quarter + jitter[0], field.height * 0.5 + jitter[1]


def new_bodies(x: jax.Array, y: jax.Array, stats: UnitStats) -> Bodies:
    """Fresh units at `x`, `y`: full health, ready weapons, overlapping ones pushed apart once."""
    health = jnp.broadcast_to(stats.health, x.shape)
    x, y = separate(x, y, stats.radius, health > 0)
    return Bodies(x, y, health, jnp.zeros_like(x))
