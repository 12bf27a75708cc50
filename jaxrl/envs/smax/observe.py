"""Observations of a battle: the unit list and the sorted view (for agents), the global state (for central critics).

Arrays are `[N, …]` with batch axes after the units, as in `dynamics`. The layouts are JaxMARL's. The sorted view,
`conic`, has 32 sections of a circle with two units in each, so its size does not depend on the number of units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities, Group
from jaxrl.envs.smax.dynamics import Bodies
from jaxrl.envs.smax.terrain import BURN, KINDS, Zones, column
from jaxrl.envs.smax.units import UnitStats

__all__ = [
    "NUM_OTHER_BASE",
    "NUM_OWN_BASE",
    "NUM_SLOTS",
    "Surroundings",
    "blocks",
    "conic",
    "entities",
    "flip",
    "global_state",
    "in_range",
    "in_view",
    "mirror",
    "num_extras",
    "own_features",
    "state_entities",
    "unit_list",
    "with_zones",
    "without_self",
]

NUM_OTHER_BASE = 7  # health, dx, dy, movement x and y, attack, cooldown; then the type, one-hot
_ACTION_ROWS = (3, 4, 5)
NUM_OWN_BASE = 4  # health, x, y, cooldown; then the type, one-hot
NUM_ZONE = 10  # the kind, one-hot; dx, dy, half the width and the height, round, effect
_ZONE_PLACE = (4, 5)
_PER_PLACE = 1 / 16  # brings places on JaxMARL's map, 32 units wide, to 0 … 2
_REACHES = (0.23, 0.57)  # in parts of their sight, units shoot so far, or nearly: with claws, and with guns
_REACHES_IN_STATE = (0.13, 0.34)


class Surroundings(NamedTuple):
    """Everything that observations are made from, leaves `[N, …]` (one-hot types `[N, K, …]`)."""

    bodies: Bodies
    stats: UnitStats
    type_one_hot: jax.Array
    move_x: jax.Array  # last movement direction
    move_y: jax.Array
    attack: jax.Array  # last attack, already scaled to 0 … 1
    attack_mirrored: jax.Array  # the same with the attacked units numbered from the other end
    heading: jax.Array | None = None  # [N, 2, …]; None where all see all around

    @property
    def alive(self) -> jax.Array:
        """Which units are alive, bool `[N, …]`."""
        return self.bodies.health > 0


def flip(surroundings: Surroundings) -> Surroundings:
    """The surroundings with the units in reverse order, so that enemies come first: JaxMARL's enemy view."""
    return jax.tree.map(lambda leaf: leaf[::-1], surroundings)


def mirror(surroundings: Surroundings, num_allies: int, width: jax.Array) -> Surroundings:
    """The surroundings from the enemies' view: they come first, and left and right are swapped."""
    surroundings = jax.tree.map(lambda leaf: jnp.concatenate([leaf[num_allies:], leaf[:num_allies]]), surroundings)
    bodies = surroundings.bodies._replace(x=width - surroundings.bodies.x)
    surroundings = surroundings._replace(
        bodies=bodies, move_x=-surroundings.move_x, attack=surroundings.attack_mirrored
    )
    if surroundings.heading is None:
        return surroundings
    heading = jnp.stack([-surroundings.heading[:, 0], surroundings.heading[:, 1]], axis=1)
    return surroundings._replace(heading=heading)


def in_view(
    seer: tuple[jax.Array, jax.Array], seen: tuple[jax.Array, jax.Array], heading: jax.Array, angle: jax.Array
) -> jax.Array:
    """Who is in whose field of view, `angle[M, …]` degrees about `heading[M, 2, …]`: bool `[M, J, …]`."""
    dx, dy = seen[0][None] - seer[0][:, None], seen[1][None] - seer[1][:, None]
    along = dx * heading[:, None, 0] + dy * heading[:, None, 1]
    least = jnp.cos(jnp.deg2rad(angle / 2))[:, None]
    return along >= least * jnp.sqrt(dx * dx + dy * dy) - 1e-5


def num_extras(units: UnitStats) -> int:
    """How many numbers about a unit follow its type: shield, energy, the way it looks (2), where there are such."""
    return (units.shield is not None) + (units.heal is not None) + 2 * (units.sight_angle is not None)


def with_zones(
    obs: jax.Array, surroundings: Surroundings, zones: Zones | None, size: tuple[jax.Array, jax.Array]
) -> jax.Array:
    """Observations `[M, D, …]` of the first M units, followed by a block of `NUM_ZONE` for each zone: `[M, D', …]`.

    A block has the kind (wall, slow, cover, burn; one-hot), dx and dy to the centre, half the width and the height, in
    parts of the map's, 1 for an ellipse, and the effect (of fire a fiftieth of it). Zones are seen from everywhere; a
    dead unit sees none.
    """
    if zones is None:
        return obs
    me = jax.tree.map(lambda leaf: leaf[: len(obs)], surroundings)
    rows = jnp.clip(zone_rows(zones, me.bodies.x, me.bodies.y, size), -1.0, 1.0)
    rows = jnp.where(me.alive[:, None, None], rows, 0.0)
    return jnp.concatenate([obs, rows.reshape(len(obs), -1, *obs.shape[2:])], axis=1)


def zone_rows(zones: Zones, x: jax.Array, y: jax.Array, size: tuple[Any, Any]) -> jax.Array:
    """Zones as seen from places `[M, …]`, in parts of `size`: `[M, Z, NUM_ZONE, …]`."""
    kind, zone_x, zone_y, width, height, round_, effect = (
        jnp.broadcast_to(column(leaf, x.ndim).swapaxes(0, 1), (len(x), len(zones.kind), *x.shape[1:]))
        for leaf in (zones.kind, zones.x, zones.y, zones.half_width, zones.half_height, zones.round, zones.effect)
    )
    kinds = [(kind == number).astype(jnp.float32) for number in range(1, len(KINDS))]
    effect = jnp.where(kind == BURN, effect / 50, effect)
    offsets = [(zone_x - x[:, None]) / size[0], (zone_y - y[:, None]) / size[1], width / size[0], height / size[1]]
    rows = jnp.stack([*kinds, *offsets, round_.astype(jnp.float32), effect], axis=2)
    return jnp.where((kind > 0)[:, :, None], rows, 0.0)


def unit_list(
    surroundings: Surroundings,
    num_observers: int,
    see_actions: jax.Array,
    size: tuple[jax.Array, jax.Array],
    sees: jax.Array | None = None,
) -> jax.Array:
    """The observations of the first `num_observers` units: `[N_observers, 13 (N-1) + 10, …]` for six types.

    One block for each other unit, in order: health/max, dx and dy over the observer's sight range, last movement x
    and y, last attack (index over its largest value), cooldown (clipped to 0 … 1 of a full one), type one-hot. A
    block is zero unless both are alive and the unit is within sight. The own block (`own_features`) comes last.
    """
    me = jax.tree.map(lambda leaf: leaf[:num_observers], surroundings)
    is_mate = np.arange(surroundings.bodies.x.shape[0] - 1) < num_observers - 1
    if sees is not None:
        sees = without_self(sees)
    seen = blocks(surroundings, me, lambda values: _others(values, num_observers), is_mate, see_actions, sees=sees)
    batch = surroundings.bodies.x.shape[1:]
    return jnp.concatenate([seen.reshape(num_observers, -1, *batch), own_features(me, size)], axis=1)


def entities(
    num_mates: int,
    num_opponents: int,
    num_types: int,
    first_attack: int | None,
    num_zones: int = 0,
    heals: bool = False,
) -> Entities:
    """The entities in a `unit_list` for teams of these sizes; `first_attack` is the action that attacks opponent 0.

    `num_types` counts all that a block has beyond `NUM_OTHER_BASE`. With healers, actions point at mates as well.
    """
    size, mates = NUM_OTHER_BASE + num_types, num_mates - 1
    first_heal = first_attack + num_opponents if heals and first_attack is not None else None
    ally = Group("ally", mates, ((0, size),), first_heal, place=(1, 2))
    enemy = Group("enemy", num_opponents, ((mates * size, size),), first_attack, place=(1, 2))
    length = (mates + num_opponents) * size + NUM_OWN_BASE + num_types
    zone = Group("zone", num_zones, ((length, NUM_ZONE),))
    groups = (*([ally] if mates else []), enemy, *([zone] if num_zones else []))
    return Entities(length + num_zones * NUM_ZONE, groups, reaches=_REACHES)


def blocks(
    surroundings: Surroundings,
    me: Surroundings,
    others: Callable[[jax.Array], jax.Array],
    is_mate: np.ndarray,
    see_actions: jax.Array,
    see_dead: bool = False,
    sees: jax.Array | None = None,
) -> jax.Array:
    """Each of M observers' view of each of J others: `[M, J, 13, …]`, zero for units that it does not see.

    Args:
        surroundings: All units.
        me: The observers, leaves `[M, …]`.
        others: Lays values `[N, …]` out as each observer sees them, `[M, J, …]` (M may be 1).
        is_mate: Which of the J are on the observers' team.
        see_actions: Whether the last actions of opponents are seen.
        see_dead: Whether dead units are seen as well.
        sees: Whom zones do not hide, bool `[M, J, …]`; None: nobody is hidden.
    """
    dx, dy = others(surroundings.bodies.x) - me.bodies.x[:, None], others(surroundings.bodies.y) - me.bodies.y[:, None]
    sight = me.stats.sight[:, None]
    visible = (dx * dx + dy * dy < sight * sight) & me.alive[:, None]
    if not see_dead:
        visible &= others(surroundings.alive)
    if sees is not None:
        visible &= sees
    own = others(_features(surroundings))
    own = jnp.broadcast_to(own, (*dx.shape[:2], *own.shape[2:]))
    offset = jnp.stack([dx / sight, dy / sight], axis=2)
    values = jnp.concatenate([own[:, :, :1], offset, own[:, :, 1:]], axis=2)

    def column(mask: np.ndarray, axis: int) -> np.ndarray:
        return mask.reshape([-1 if i == axis else 1 for i in range(values.ndim)])

    is_action = column(np.isin(np.arange(values.shape[2]), _ACTION_ROWS), 2)
    return jnp.where(visible[:, :, None] & (~is_action | column(is_mate, 1) | see_actions), values, 0.0)


def own_features(me: Surroundings, size: tuple[jax.Array, jax.Array]) -> jax.Array:
    """The units' features of themselves, `[M, 10, …]`: health/max, x/width, y/height, cooldown, one-hot type."""
    own = _features(me)
    place = jnp.stack([me.bodies.x / size[0], me.bodies.y / size[1]], axis=1)
    return jnp.where(me.alive[:, None], jnp.concatenate([own[:, :1], place, own[:, 4:]], axis=1), 0.0)


def global_state(
    surroundings: Surroundings, is_enemy: jax.Array | np.ndarray, unit_type: jax.Array, zones: Zones | None = None
) -> jax.Array:
    """All units, regardless of visibility, in map units: `[12 N, …]`, the layout of JaxMARL's world state.

    A block of ten per unit (health/max, x, y, cooldown in seconds, type one-hot; zero if dead), then the team of each
    unit (0 ally, 1 enemy), then its type; at the end a block for each zone, as in `with_zones`, in map units.
    """
    bodies = surroundings.bodies
    blocks = _with_type(surroundings, [_health_fraction(surroundings), bodies.x, bodies.y, bodies.cooldown])
    blocks = jnp.where(surroundings.alive[:, None], blocks, 0.0).reshape(-1, *bodies.x.shape[1:])
    labels = [jnp.broadcast_to(v, bodies.x.shape).astype(jnp.float32) for v in (is_enemy, unit_type)]
    if zones is None:
        return jnp.concatenate([blocks, *labels])
    origin = jnp.zeros_like(bodies.x[:1])
    rows = zone_rows(zones, origin, origin, (1.0, 1.0))
    return jnp.concatenate([blocks, *labels, rows.reshape(-1, *bodies.x.shape[1:])])


def state_entities(num_allies: int, num_enemies: int, num_types: int, num_zones: int = 0) -> Entities:
    """The entities that `global_state` is made of, for teams of these sizes; the labels at its end say nothing new."""
    size, units = NUM_OWN_BASE + num_types, num_allies + num_enemies
    scale = (1.0, _PER_PLACE, _PER_PLACE, 1.0, *(1.0,) * num_types)
    ally = Group("ally", num_allies, ((0, size),), scale=scale, place=(1, 2))
    enemy = Group("enemy", num_enemies, ((num_allies * size, size),), scale=scale, place=(1, 2))
    labels, length = (units * size, 2 * units), units * (size + 2)
    per_zone = (*(1.0,) * 4, *(_PER_PLACE,) * 4, 1.0, 1.0)
    zone = Group("zone", num_zones, ((length, NUM_ZONE),), scale=per_zone, place=_ZONE_PLACE)
    groups = (ally, enemy, zone) if num_zones else (ally, enemy)
    return Entities(length + num_zones * NUM_ZONE, groups, (labels,), _REACHES_IN_STATE, relative=False)


def in_range(bodies: Bodies, reach: jax.Array, num_allies: int) -> tuple[jax.Array, jax.Array]:
    """Which living opponents are within `reach[N, …]` of each living unit: `([A, E, …], [E, A, …])`, in index order."""
    alive = bodies.health > 0
    dx = bodies.x[:num_allies, None] - bodies.x[None, num_allies:]
    dy = bodies.y[:num_allies, None] - bodies.y[None, num_allies:]
    square = dx * dx + dy * dy
    both = alive[:num_allies, None] & alive[None, num_allies:]
    of_allies = both & (square < jnp.square(reach[:num_allies, None]))
    of_enemies = both & (square < jnp.square(reach[None, num_allies:]))
    return of_allies, jnp.swapaxes(of_enemies, 0, 1)


def _others(values: jax.Array, num_observers: int) -> jax.Array:
    """`values[N, …]` for each observer, excluding its own: `[N_observers, N-1, …]`."""
    others = values.shape[0] - 1
    row = jnp.arange(num_observers).reshape((-1, 1) + (1,) * (values.ndim - 1))
    column = jnp.arange(others).reshape((1, -1) + (1,) * (values.ndim - 1))
    return jnp.where(column < row, values[None, :-1], values[None, 1:])


def without_self(pairs: jax.Array) -> jax.Array:
    """`pairs[M, N, …]` of the first M of N units with all, without those of a unit with itself: `[M, N-1, …]`."""
    row = np.arange(pairs.shape[0]).reshape((-1, 1) + (1,) * (pairs.ndim - 2))
    column = np.arange(pairs.shape[1] - 1).reshape((1, -1) + (1,) * (pairs.ndim - 2))
    return jnp.where(column < row, pairs[:, :-1], pairs[:, 1:])


def _features(surroundings: Surroundings) -> jax.Array:
    """Features independent of the observer: health/max, movement x and y, attack, cooldown, type: `[N, 11, …]`."""
    cooldown = jnp.clip(surroundings.bodies.cooldown / surroundings.stats.cooldown, 0.0, 1.0)
    return _with_type(
        surroundings,
        [_health_fraction(surroundings), surroundings.move_x, surroundings.move_y, surroundings.attack, cooldown],
    )


def _with_type(surroundings: Surroundings, rows: list[jax.Array]) -> jax.Array:
    """R rows `[N, …]` and the one-hot types as one array `[N, R + K, …]`: XLA makes a kernel for each single row."""
    types = jnp.broadcast_to(
        surroundings.type_one_hot, (*surroundings.type_one_hot.shape[:2], *surroundings.bodies.x.shape[1:])
    )
    extras = _extras(surroundings)
    return jnp.concatenate([jnp.stack(rows, axis=1), types, *([jnp.stack(extras, axis=1)] if extras else [])], axis=1)


def _extras(surroundings: Surroundings) -> list[jax.Array]:
    """What is left of shields and of healers' energy, as parts of the most, and the way that a unit looks, where there
    are such: `[N, …]` each.
    """
    bodies, stats = surroundings.bodies, surroundings.stats
    pairs = ((bodies.shield, stats.shield), (bodies.energy, stats.energy))
    parts = [left / jnp.maximum(most, 1.0) for left, most in pairs if left is not None]
    return parts if surroundings.heading is None else [*parts, surroundings.heading[:, 0], surroundings.heading[:, 1]]


def _health_fraction(surroundings: Surroundings) -> jax.Array:
    return surroundings.bodies.health / surroundings.stats.health


_SECTIONS = 32
_PER_SECTION = 2
NUM_SLOTS = _SECTIONS * _PER_SECTION


def conic(
    surroundings: Surroundings,
    observers: slice,
    see_actions: jax.Array,
    size: tuple[jax.Array, jax.Array],
    sees: jax.Array | None = None,
    *,
    jaxmarl: bool = False,
) -> jax.Array:
    """The observations of `observers` (one whole team): `[M, 64 * 13 + 10, …]` for six types.

    Section s covers the directions from `2 pi s / 32 - pi` on, counter-clockwise from the left; it contains the blocks
    (see `observe.unit_list`) of the first two visible units, by index. The own block comes last.

    `jaxmarl` repeats faults of JaxMARL 0.2: unit 0 is never seen, dead units are, and units exactly between two
    sections are not.
    """
    num_units = surroundings.bodies.x.shape[0]
    me = jax.tree.map(lambda leaf: leaf[observers], surroundings)
    own_row = np.arange(num_units)[observers]
    is_mate = np.isin(np.arange(num_units), own_row)
    seen = blocks(surroundings, me, lambda values: values[None], is_mate, see_actions, jaxmarl, sees)

    dx, dy = surroundings.bodies.x[None] - me.bodies.x[:, None], surroundings.bodies.y[None] - me.bodies.y[:, None]
    sight = me.stats.sight[:, None]
    visible = (dx * dx + dy * dy < sight * sight) & me.alive[:, None]
    visible &= _column(np.arange(num_units) != own_row[:, None], dx.ndim)
    if sees is not None:
        visible &= sees
    angle = jnp.arctan2(dy, dx)[:, :, None]
    edges = 2 * math.pi * (np.arange(_SECTIONS + 1) / _SECTIONS) - math.pi
    edges[-1] += 0.0 if jaxmarl else 1.0  # so that straight left is in the last section
    lower, upper = (_column(e.astype(np.float32)[None, None], dx.ndim + 1) for e in (edges[:-1], edges[1:]))
    if jaxmarl:
        visible &= _column(np.arange(num_units)[None] > 0, dx.ndim)
        stands_in = (angle > lower) & (angle < upper)
    else:
        visible &= surroundings.alive[None]
        stands_in = (angle >= lower) & (angle < upper)

    # How many units up to this one are in each section, [M, N, S, …].
    taken = jnp.cumsum(visible[:, :, None] & stands_in, axis=1)
    slots = [jnp.argmax(taken == rank + 1, axis=1) for rank in range(_PER_SECTION)]
    index = jnp.stack(slots, axis=2).reshape(me.alive.shape[0], NUM_SLOTS, 1, *dx.shape[2:])
    filled = jnp.stack([taken[:, -1] > rank for rank in range(_PER_SECTION)], axis=2).reshape(index.shape)
    chosen = jnp.where(filled, jnp.take_along_axis(seen, index, axis=1), 0.0)
    return jnp.concatenate([chosen.reshape(chosen.shape[0], -1, *dx.shape[2:]), own_features(me, size)], axis=1)


def _column(values: np.ndarray, ndim: int) -> np.ndarray:
    return values.reshape(values.shape + (1,) * (ndim - values.ndim))
