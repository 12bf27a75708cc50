"""What units can do beyond shooting and walking: shields, armour, several hits, splash, healing.

Arrays are `[N, …]` with batch axes last, as in `dynamics`. All rules hold at once for the state at the start of a tick,
so none depends on the order of units. The numbers of StarCraft's units are those of SMAClite (Michalski et al. 2023,
https://arxiv.org/abs/2305.05566).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.smax.units import UnitStats

__all__ = ["Strikes", "absorb", "can_hit", "heal", "strikes_of", "struck"]


class Strikes(NamedTuple):
    """What a shot of each unit does to each other, `[N, N, …]`."""

    force: jax.Array  # what a shield takes
    wound: jax.Array  # what the health loses where no shield is left: each hit less the armour


def strikes_of(stats: UnitStats, bonus: jax.Array | None) -> Strikes | None:
    """The effect of shots for a step; None where it is the damage alone, and one unit is hit.

    `bonus[N, N, …]` is what a hit of the first unit on the second adds.
    """
    if stats.armour is None and stats.splash is None:
        return None
    if stats.armour is None:
        plain = jnp.broadcast_to(stats.damage[:, None], (len(stats.damage), *stats.damage.shape))
        return Strikes(plain, plain)
    hit = stats.damage[:, None] + bonus
    hits = stats.hits[:, None]
    return Strikes(hits * hit, hits * jnp.maximum(hit - stats.armour[None], 0.0))


def struck(
    x: jax.Array, y: jax.Array, aims: jax.Array, fired: jax.Array, stats: UnitStats, num_allies: int
) -> jax.Array:
    """How much of a shot of each unit strikes each other: `[N, N, …]`, 1 for its target, if it has fired.

    Splash strikes opponents whose bodies touch an ellipse about the target, with one axis along the line of fire.

    Args:
        x: Places, `[N, …]`.
        y: Likewise.
        aims: The unit at which each one shoots, `[N, …]`, or -1.
        fired: Who shoots in this tick, bool `[N, …]`.
        stats: Statistics per unit.
        num_allies: A.
    """
    count = len(x)
    numbers = np.arange(count).reshape(1, -1, *(1,) * (x.ndim - 1))
    is_aim = (aims[:, None] == numbers) & fired[:, None]
    share = is_aim.astype(jnp.float32)
    if stats.splash is None:
        return share
    aim_x, aim_y = (jnp.where(is_aim, place[None], 0.0).sum(1) for place in (x, y))
    along_x, along_y = aim_x - x, aim_y - y
    length = jnp.sqrt(along_x * along_x + along_y * along_y) + 1e-6
    along_x, along_y = along_x / length, along_y / length
    dx, dy = x[None] - aim_x[:, None], y[None] - aim_y[:, None]
    along = dx * along_x[:, None] + dy * along_y[:, None]
    across = dy * along_x[:, None] - dx * along_y[:, None]
    part_along = along / jnp.maximum(stats.splash_depth[:, None] + stats.radius[None], 1e-6)
    part_across = across / jnp.maximum(stats.splash_radius[:, None] + stats.radius[None], 1e-6)
    is_enemy = np.arange(count) >= num_allies
    opponents = (is_enemy[:, None] != is_enemy).reshape(count, count, *(1,) * (x.ndim - 1))
    beside = (part_along * part_along + part_across * part_across < 1) & fired[:, None] & ~is_aim & opponents
    return share + jnp.where(beside, stats.splash[:, None], 0.0)


def absorb(
    shield: jax.Array, unhurt: jax.Array, force: jax.Array, wound: jax.Array, stats: UnitStats, dt: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`(shield, unhurt, wound)` after a tick: the share of the force that the shield takes, the health does not lose.

    A shield that was not hit for `shield_delay` seconds comes back by `shield_regen` per second.
    """
    taken = jnp.minimum(shield, force)
    wound = wound * (1.0 - taken / jnp.maximum(force, 1e-6))
    unhurt = jnp.where(force > 0, 0.0, unhurt + dt)
    back = jnp.where(unhurt >= stats.shield_delay, stats.shield_regen * dt, 0.0)
    return jnp.minimum(shield - taken + back, stats.shield), unhurt, wound


def heal(
    x: jax.Array,
    y: jax.Array,
    health: jax.Array,
    energy: jax.Array,
    patient: jax.Array,
    stats: UnitStats,
    dt: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """`(health gained, energy left)` in a tick, from the unit `patient[N, …]` that each one heals, or -1.

    A healer works while its patient lives, is hurt and in range, and as far as its energy goes.
    """
    numbers = np.arange(len(x)).reshape(1, -1, *(1,) * (x.ndim - 1))
    dx, dy = x[:, None] - x[None], y[:, None] - y[None]
    near = dx * dx + dy * dy < jnp.square(stats.range[:, None])
    needs = (health > 0) & (health < stats.health)
    able = (patient[:, None] == numbers) & near & needs[None] & (health > 0)[:, None]
    cost = stats.energy_cost * dt
    effort = jnp.where(cost > 0, jnp.clip(energy / jnp.maximum(cost, 1e-6), 0.0, 1.0), 1.0)
    gained = jnp.where(able, (effort * stats.heal * dt)[:, None], 0.0).sum(0)
    spent = jnp.where(able.any(1), effort * cost, 0.0)
    return gained, jnp.clip(energy - spent + stats.energy_regen * dt, 0.0, stats.energy)


def can_hit(stats: UnitStats, own: slice, other: slice) -> jax.Array | None:
    """Which unit can hit which opponent at all: bool `[M, J, …]`; None if everybody can hit everybody."""
    if stats.flies is None:
        return None
    return jnp.where(stats.flies[other][None], stats.hits_air[own][:, None], stats.hits_ground[own][:, None])
