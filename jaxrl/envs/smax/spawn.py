"""The positions and types of units at the start of a battle. Arrays are `[N, …]` with batch axes last."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.smax.dynamics import Bodies, Field, inside, separate
from jaxrl.envs.smax.units import UnitStats

__all__ = ["NUM_SMACV2_DRAWS", "new_bodies", "random_types", "sides", "smacv2"]

NUM_SMACV2_DRAWS = 6  # in addition to three per unit: the kind of spawn, the team inside, four groups
_JITTER = 2.0  # map units in each direction
_MARGIN = 1.0  # from the border, which kills


def sides(uniform: jax.Array, num_allies: int, field: Field) -> tuple[jax.Array, jax.Array]:
    """Allies around the middle of the left half, enemies around that of the right: `(x, y)`, each `[N, …]`.

    `uniform[2, N, …]` holds draws in [0, 1). On maps smaller than 16 units, the teams are closer together.
    """
    quarter = _column(
        np.where(np.arange(uniform.shape[1]) >= num_allies, np.float32(0.75), np.float32(0.25)), uniform.ndim - 1
    )
    return field.width * quarter + _jitter(uniform[0], field), field.height * 0.5 + _jitter(uniform[1], field)


def smacv2(
    uniform: jax.Array, extra: jax.Array, num_allies: int, field: Field, *, in_map: bool = True
) -> tuple[jax.Array, jax.Array]:
    """Half of the battles surrounded, half scattered and mirrored (SMACv2, Ellis et al. 2023): `(x, y)`, `[N, …]`.

    Args:
        uniform: Draws in [0, 1), `[3, N, …]`.
        extra: Further draws, `[NUM_SMACV2_DRAWS, …]`.
        num_allies: A.
        field: The map.
        in_map: Place all units one map unit away from the border; `new_bodies` may push some of them nearer to it.
            False as in JaxMARL, where units of a surrounding team can be outside the map and die immediately.
    """
    margin = _MARGIN if in_map else 0.0
    scattered = _reflect(uniform, num_allies, field, margin)
    surrounded = _surround(uniform, extra[1:], num_allies, field, margin if in_map else None)
    return tuple(jnp.where(extra[0] < 0.5, s, r) for s, r in zip(surrounded, scattered, strict=True))  # pyright: ignore


def _reflect(u: jax.Array, num_allies: int, field: Field, margin: float) -> tuple[jax.Array, jax.Array]:
    """Allies anywhere in the left half, enemies mirrored; surplus enemies anywhere in the right half."""
    num_enemies = u.shape[1] - num_allies
    mirrored = min(num_allies, num_enemies)
    x = margin + u[0] * (field.width * 0.5 - margin)
    y = margin + u[1] * (field.height - 2 * margin)
    x_enemies = field.width - jnp.concatenate([x[:mirrored], x[num_allies + mirrored :]])
    y_enemies = jnp.concatenate([y[:mirrored], y[num_allies + mirrored :]])
    return jnp.concatenate([x[:num_allies], x_enemies]), jnp.concatenate([y[:num_allies], y_enemies])


def _surround(
    u: jax.Array, extra: jax.Array, num_allies: int, field: Field, margin: float | None
) -> tuple[jax.Array, jax.Array]:
    """One team in the middle; the others in four groups, each somewhere between its corner and the middle."""
    is_enemy = _column(np.arange(u.shape[1]) >= num_allies, u.ndim - 1)
    outside = is_enemy ^ (extra[0] < 0.5)
    group = jnp.floor(u[2] * 4)
    towards_middle = extra[1]
    for g in range(1, 4):
        towards_middle = jnp.where(group == g, extra[1 + g], towards_middle)

    def place(jitter: jax.Array, far_corner: jax.Array, size: jax.Array) -> jax.Array:
        point = size * (towards_middle * 0.5 + (1 - towards_middle) * far_corner)
        if margin is not None:
            point = jnp.clip(point, _JITTER + margin, size - _JITTER - margin)
        return jnp.where(outside, point, size * 0.5) + _jitter(jitter, field)

    return place(u[0], group >= 2, field.width), place(u[1], group % 2 == 1, field.height)


def random_types(uniform: jax.Array, num_allies: int, num_types: int, *, surplus: bool = True) -> jax.Array:
    """A random type for each ally, the same for the enemy of the same index: int32 `[N, …]` from draws `[N, …]`.

    Surplus enemies also have random types; with `surplus=False`, the first type, as in JaxMARL 0.2.
    """
    types = jnp.floor(uniform * num_types).astype(jnp.int32)
    num_copied = min(num_allies, types.shape[0] - num_allies)
    rest = types[num_allies + num_copied :]
    return jnp.concatenate([types[:num_allies], types[:num_copied], rest if surplus else jnp.zeros_like(rest)])


def new_bodies(x: jax.Array, y: jax.Array, stats: UnitStats, field: Field, *, in_map: bool = True) -> Bodies:
    """New units at `x`, `y`: full health, ready weapons, overlapping units pushed apart once."""
    health = jnp.broadcast_to(stats.health, x.shape)
    x, y = separate(x, y, stats.radius, health > 0, unroll=False)
    bodies = Bodies(x, y, health, jnp.zeros_like(x))
    return inside(bodies, field) if in_map else bodies


def _jitter(uniform: jax.Array, field: Field) -> jax.Array:
    return (2.0 * uniform - 1.0) * jnp.minimum(_JITTER, jnp.minimum(field.width, field.height) / 8)


def _column(values: np.ndarray, ndim: int) -> np.ndarray:
    return values.reshape((-1,) + (1,) * (ndim - 1))
