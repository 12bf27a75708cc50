"""The physics of a battle: spawns, movement, shots, walls and collisions in small ticks of time.

Arrays here are `[N, …]`: one row per unit (A allies, then E enemies), with any batch axes *after* it. A batch as the
last axis keeps the processor's vector lanes full however few units there are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.smax import abilities, terrain
from jaxrl.envs.smax.abilities import Strikes
from jaxrl.envs.smax.terrain import Zones
from jaxrl.envs.smax.units import UnitStats
from jaxrl.rl.devices import target

__all__ = [
    "NUM_SMACV2_DRAWS",
    "Bodies",
    "Field",
    "Orders",
    "aims_of",
    "gather",
    "inside",
    "new_bodies",
    "random_types",
    "run_ticks",
    "separate",
    "sides",
    "smacv2",
]

# Up to this many units, a sum or a choice over them is written out row by row, which XLA fuses into one vector loop.
# Measured on a CPU: 2.5 times faster for the pushes among 50 units; a choice among 25 is faster as a lookup.
_UNROLL_SUM = 64
_UNROLL_GATHER = 16
_UNROLL_TICKS = 16
_PUSH_EPSILON = 1e-6  # keeps coincident bodies finite; they have no direction to be pushed in


class Bodies(NamedTuple):
    """The arrays that physics changes, each `[N, …]`. A unit is alive while its health is positive."""

    x: jax.Array
    y: jax.Array
    health: jax.Array
    cooldown: jax.Array  # seconds until the weapon is ready; negative after a wait
    shield: jax.Array | None = None  # see `State`
    unhurt: jax.Array | None = None
    energy: jax.Array | None = None
    exposed: jax.Array | None = None


class Orders(NamedTuple):
    """The orders of the units, constant through the ticks of one step."""

    move_x: jax.Array  # direction of movement, [N, …], a unit vector or zero
    move_y: jax.Array
    ally_target: jax.Array  # [A, …] index of the attacked enemy 0 … E-1, or -1
    enemy_target: jax.Array  # [E, …] index of the attacked ally 0 … A-1, or -1
    patient: jax.Array | None = None  # [N, …] the unit 0 … N-1 that a healer heals, or -1; None without healers


class Field(NamedTuple):
    """The map and its clock, scalars."""

    width: jax.Array
    height: jax.Array
    dt: jax.Array  # seconds per tick
    walls_cause_death: jax.Array
    zones: Zones | None = None


def run_ticks(
    bodies: Bodies,
    orders: Orders,
    stats: UnitStats,
    field: Field,
    deviation: jax.Array,
    strikes: Strikes | None = None,
    *,
    trace: bool = False,
) -> Bodies:
    """The bodies after T ticks; with `trace`, after each tick, leaves `[T, N, …]`.

    Args:
        bodies: State at the start, `[N, …]`.
        orders: The orders of all units.
        stats: Statistics per unit, `[N, …]` (batch axes of size 1 allowed).
        field: The map.
        deviation: `[T, N, …]` seconds added to the cooldown of a weapon fired in that tick.
        strikes: The effect of shots; None where they do their damage to one unit.
        trace: Whether to return every tick.
    """
    num_allies, num_enemies = orders.ally_target.shape[0], orders.enemy_target.shape[0]
    # Outside the loop, these are two kernels; inside, XLA would hoist the comparison with each row as its own kernel.
    aims = _rows_of(orders.ally_target, num_enemies), _rows_of(orders.enemy_target, num_allies)

    def tick(bodies: Bodies, deviation: jax.Array) -> tuple[Bodies, Bodies | None]:
        bodies = _tick(bodies, orders, aims, stats, field, deviation, strikes)
        return bodies, bodies if trace else None

    # On an accelerator each kernel of a turn is launched anew, so few units take all ticks at once; of many, compiling
    # these takes minutes, and the program moves more bytes.
    at_once = target() != "cpu" and num_allies + num_enemies <= _UNROLL_TICKS
    last, every = jax.lax.scan(tick, bodies, deviation, unroll=len(deviation) if at_once else 1)
    return last if every is None else every


def inside(bodies: Bodies, field: Field) -> Bodies:
    """The bodies, with those that were pushed off the map moved back to its border."""
    return bodies._replace(x=jnp.clip(bodies.x, 0.0, field.width), y=jnp.clip(bodies.y, 0.0, field.height))


def _tick(
    bodies: Bodies,
    orders: Orders,
    aims: tuple[jax.Array, jax.Array],
    stats: UnitStats,
    field: Field,
    deviation: jax.Array,
    strikes: Strikes | None,
) -> Bodies:
    """One tick. Movement, shots and cooldowns all use the state at its start, so no unit goes first."""
    alive, speed = bodies.health > 0, stats.speed
    damage, fired = _shots(bodies, orders, aims, stats, alive)
    cooldown = jnp.where(fired, stats.cooldown + deviation, bodies.cooldown - field.dt)
    if field.zones is not None:
        slowed = terrain.slowed(field.zones, bodies.x, bodies.y)
        speed = speed * _unless_flying(stats, slowed, 1.0)
    x = jnp.clip(bodies.x + orders.move_x * speed * field.dt, 0.0, field.width)
    y = jnp.clip(bodies.y + orders.move_y * speed * field.dt, 0.0, field.height)
    x, y = jnp.where(alive, x, bodies.x), jnp.where(alive, y, bodies.y)
    at_border = (x <= 0) | (y <= 0) | (x >= field.width) | (y >= field.height)
    dies = at_border & field.walls_cause_death
    left, more = _left_over(bodies, orders, damage, fired, stats, field, strikes)
    health = jnp.where(dies, 0.0, left)
    x, y = separate(x, y, stats.radius, _unless_flying(stats, health > 0, False))
    if field.zones is not None:
        stopped = terrain.stop(field.zones, (bodies.x, bodies.y), (x, y), stats.radius)
        x, y = (_unless_flying(stats, *pair) for pair in zip(stopped, (x, y), strict=True))
    return Bodies(x, y, health, cooldown, *more)


def _left_over(
    bodies: Bodies,
    orders: Orders,
    damage: jax.Array,
    fired: jax.Array,
    stats: UnitStats,
    field: Field,
    strikes: Strikes | None,
) -> tuple[jax.Array, tuple[jax.Array | None, ...]]:
    """`(health, (shield, unhurt, energy, exposed))` after a tick in which units take this damage, each `[N, …]`."""
    shield, unhurt, energy, exposed = bodies.shield, bodies.unhurt, bodies.energy, bodies.exposed
    force, gained = damage, None
    if strikes is not None:
        num_allies = len(orders.ally_target)
        share = abilities.struck(bodies.x, bodies.y, aims_of(orders), fired, stats, num_allies)
        force, damage = (share * strikes.force).sum(0), (share * strikes.wound).sum(0)
    if shield is not None and unhurt is not None:
        shield, unhurt, damage = abilities.absorb(shield, unhurt, force, damage, stats, field.dt)
    if field.zones is not None and exposed is not None:
        heat = terrain.burn(field.zones, bodies.x, bodies.y) * field.dt
        damage = damage + _unless_flying(stats, heat, 0.0)
        exposed = jnp.where(fired, 1.0, jnp.maximum(exposed - field.dt, 0.0))
    if stats.regen is not None:
        gained = stats.regen * field.dt
    if orders.patient is not None and energy is not None:
        healed, energy = abilities.heal(bodies.x, bodies.y, bodies.health, energy, orders.patient, stats, field.dt)
        gained = healed if gained is None else gained + healed
    left = jnp.maximum(bodies.health - damage, 0.0)
    if gained is not None:
        left = jnp.clip(bodies.health - damage + gained, 0.0, stats.health)
        left = jnp.where(bodies.health > 0, left, 0.0)
    if stats.suicide is not None:
        left = jnp.where(fired & stats.suicide, 0.0, left)
    return left, (shield, unhurt, energy, exposed)


def _unless_flying(stats: UnitStats, here: jax.Array, above: Any) -> jax.Array:
    """What holds for units on the ground, and something else for those that fly."""
    return here if stats.flies is None else jnp.where(stats.flies, above, here)


def aims_of(orders: Orders) -> jax.Array:
    """The unit at which each one shoots, `[N, …]`, as an index among all, or -1."""
    num_allies = orders.ally_target.shape[0]
    aims = jnp.concatenate([orders.ally_target + num_allies, orders.enemy_target])
    return jnp.where(jnp.concatenate([orders.ally_target, orders.enemy_target]) < 0, -1, aims)


def _shots(
    bodies: Bodies, orders: Orders, aims: tuple[jax.Array, jax.Array], stats: UnitStats, alive: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`(damage taken, fired)`, each `[N, …]`: a shot needs a living target in range and a ready weapon."""
    num_allies = orders.ally_target.shape[0]
    if target() != "cpu":
        return _shots_at_once(bodies, orders, stats, alive)
    teams = (slice(None, num_allies), slice(num_allies, None))
    targets = (orders.ally_target, orders.enemy_target)
    fired, hits = [], []
    for own, other, index, aim in zip(teams, teams[::-1], targets, aims, strict=True):
        dx = bodies.x[own] - gather(bodies.x[other], index)
        dy = bodies.y[own] - gather(bodies.y[other], index)
        near = dx * dx + dy * dy < jnp.square(stats.range[own])
        ready = alive[own] & (bodies.cooldown[own] <= 0)
        fires = near & ready & (gather(bodies.health[other], index) > 0)
        fired.append(fires)
        hits.append(_sum_at(jnp.where(fires, stats.damage[own], 0.0), aim))
    return jnp.concatenate(hits[::-1]), jnp.concatenate(fired)


def _shots_at_once(bodies: Bodies, orders: Orders, stats: UnitStats, alive: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`_shots` of both teams in one piece, for accelerators, where each concatenation is a kernel."""
    aims = aims_of(orders)
    dx = bodies.x - gather(bodies.x, aims)
    dy = bodies.y - gather(bodies.y, aims)
    near = dx * dx + dy * dy < jnp.square(stats.range)
    fired = near & alive & (bodies.cooldown <= 0) & (gather(bodies.health, aims) > 0)
    return _sum_at(jnp.where(fired, stats.damage, 0.0), _rows_of(aims, len(aims))), fired


def separate(
    x: jax.Array, y: jax.Array, radius: jax.Array, alive: jax.Array, *, unroll: bool = True
) -> tuple[jax.Array, jax.Array]:
    """Push overlapping living bodies apart, all pairs at once: each moves by half the overlap. All `[N, …]`.

    Few bodies are written out one by one if `unroll`: faster to run, slower to compile.
    """
    num_units = x.shape[0]
    radius = jnp.where(alive, radius, -jnp.inf)  # so that dead bodies push no one
    if not unroll or num_units > _UNROLL_SUM:
        pushes_x, pushes_y = _push(x[:, None], y[:, None], radius[:, None], x[None], y[None], radius[None])
        return x + 0.5 * pushes_x.sum(1), y + 0.5 * pushes_y.sum(1)
    pushes = [_push(x, y, radius, x[j], y[j], radius[j]) for j in range(num_units)]
    return x + 0.5 * sum(p[0] for p in pushes), y + 0.5 * sum(p[1] for p in pushes)


def _push(
    x: jax.Array, y: jax.Array, radius: jax.Array, other_x: jax.Array, other_y: jax.Array, other_radius: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The displacement that brings two discs from overlap to contact, along the line between their centres."""
    dx, dy = x - other_x, y - other_y
    distance = jnp.sqrt(dx * dx + dy * dy) + _PUSH_EPSILON
    overlap = jnp.maximum((radius + other_radius) / distance - 1.0, 0.0)
    return dx * overlap, dy * overlap


def gather(values: jax.Array, index: jax.Array) -> jax.Array:
    """`values[index]` along the unit axis: `values[M, …]`, `index[N, …]` gives `[N, …]`, 0 where the index is -1."""
    if values.shape[0] > _UNROLL_GATHER:
        return jnp.where(index < 0, 0.0, jnp.take_along_axis(values, jnp.maximum(index, 0), axis=0))
    out = jnp.zeros(index.shape, values.dtype)
    for row, value in enumerate(values):
        out = jnp.where(index == row, value, out)
    return out


def _rows_of(index: jax.Array, size: int) -> jax.Array:
    """One-hot rows for `index[N, …]`: bool `[size, N, …]`; -1 selects none."""
    return index[None] == np.arange(size).reshape(-1, *(1,) * index.ndim)


def _sum_at(values: jax.Array, rows: jax.Array) -> jax.Array:
    """Sum `values[N, …]` into the rows that `rows[M, N, …]` chooses: `[M, …]`."""
    if values.shape[0] > _UNROLL_SUM:
        return jnp.where(rows, values, 0.0).sum(1)
    total = jnp.zeros((rows.shape[0], *values.shape[1:]), jnp.float32)
    for n in range(values.shape[0]):
        total = total + jnp.where(rows[:, n], values[n], 0.0)
    return total


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


def new_bodies(
    x: jax.Array, y: jax.Array, stats: UnitStats, field: Field, *, in_map: bool = True, there: jax.Array | None = None
) -> Bodies:
    """New units at `x`, `y`: full health, ready weapons, overlapping units pushed apart once.

    `there[N, …]` says whose places are taken; the others' units are dead from the start. Without it, all are.
    """
    health = jnp.broadcast_to(stats.health, x.shape)
    if there is not None:
        health = jnp.where(there, health, 0.0)
    x, y = separate(x, y, stats.radius, _unless_flying(stats, health > 0, False), unroll=False)
    still = jnp.zeros_like(x)
    shield = None if stats.shield is None else jnp.broadcast_to(stats.shield, x.shape)
    energy = None if stats.heal is None else jnp.broadcast_to(stats.energy_start, x.shape)
    unhurt, exposed = None if shield is None else still, None if field.zones is None else still
    bodies = Bodies(x, y, health, still, shield, unhurt, energy, exposed)
    return inside(bodies, field) if in_map else bodies


def _jitter(uniform: jax.Array, field: Field) -> jax.Array:
    return (2.0 * uniform - 1.0) * jnp.minimum(_JITTER, jnp.minimum(field.width, field.height) / 8)


def _column(values: np.ndarray, ndim: int) -> np.ndarray:
    return values.reshape((-1,) + (1,) * (ndim - 1))
