"""Observations of a battle: the unit list (for agents) and the global state (for central critics).

Arrays are `[N, …]` with batch axes after the units, as in `dynamics`. The layout is JaxMARL's.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.entities import Entities, Group
from jaxrl.envs.smax.dynamics import Bodies
from jaxrl.envs.smax.units import UnitStats

__all__ = [
    "ACTION_ROWS",
    "NUM_OTHER_BASE",
    "NUM_OWN_BASE",
    "Surroundings",
    "entities",
    "flip",
    "global_state",
    "in_range",
    "mirror",
    "own_features",
    "state_entities",
    "table",
    "unit_list",
]

NUM_OTHER_BASE = 7  # health, dx, dy, movement x and y, attack, cooldown; then the type, one-hot
ACTION_ROWS = (3, 4, 5)
NUM_OWN_BASE = 4  # health, x, y, cooldown; then the type, one-hot
_PER_PLACE = 1 / 16  # brings places on JaxMARL's map, 32 units wide, to 0 … 2
_FAR = 1e9  # where the dead are put, out of everybody's sight


class Surroundings(NamedTuple):
    """Everything that observations are made from, leaves `[N, …]` (one-hot types `[N, K, …]`)."""

    bodies: Bodies
    stats: UnitStats
    type_one_hot: jax.Array
    move_x: jax.Array  # last movement direction
    move_y: jax.Array
    attack: jax.Array  # last attack, already scaled to 0 … 1
    attack_mirrored: jax.Array  # the same with the attacked units numbered from the other end

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
    return surroundings._replace(bodies=bodies, move_x=-surroundings.move_x, attack=surroundings.attack_mirrored)


def unit_list(
    surroundings: Surroundings, num_observers: int, see_actions: jax.Array, size: tuple[jax.Array, jax.Array]
) -> jax.Array:
    """The observations of the first `num_observers` units: `[N_observers, 13 (N-1) + 10, …]` for six types.

    One block for each other unit, in order: health/max, dx and dy over the observer's sight range, last movement x
    and y, last attack (index over its largest value), cooldown (clipped to 0 … 1 of a full one), type one-hot. A
    block is zero unless both are alive and the unit is within sight. The own block (`own_features`) comes last.
    """
    own = own_features(jax.tree.map(lambda leaf: leaf[:num_observers], surroundings), size)
    own = jnp.moveaxis(own, (0, 1), (-2, -1))
    rows = jnp.concatenate([_blocks_of_others(surroundings, num_observers, see_actions), own], axis=-1)
    return jnp.moveaxis(rows, (-2, -1), (0, 1))


def entities(num_mates: int, num_opponents: int, num_types: int, first_attack: int | None) -> Entities:
    """What `unit_list` is made of, for teams of these sizes; `first_attack` is the action that attacks opponent 0."""
    size, mates = NUM_OTHER_BASE + num_types, num_mates - 1
    ally = Group("ally", mates, ((0, size),))
    enemy = Group("enemy", num_opponents, ((mates * size, size),), first_attack)
    length = (mates + num_opponents) * size + NUM_OWN_BASE + num_types
    return Entities(length, (ally, enemy) if mates else (enemy,))


def table(surroundings: Surroundings) -> jax.Array:
    """What each unit shows of itself: the rows of its block, with its place instead of the offset: `[N, 13, …]`."""
    rows = _features(surroundings)
    place = jnp.stack([surroundings.bodies.x, surroundings.bodies.y], axis=1)
    return jnp.concatenate([rows[:, :1], place, rows[:, 1:]], axis=1)


def own_features(me: Surroundings, size: tuple[jax.Array, jax.Array]) -> jax.Array:
    """The units' features of themselves, `[M, 10, …]`: health/max, x/width, y/height, cooldown, one-hot type."""
    own = _features(me)
    place = jnp.stack([me.bodies.x / size[0], me.bodies.y / size[1]], axis=1)
    return jnp.where(me.alive[:, None], jnp.concatenate([own[:, :1], place, own[:, 4:]], axis=1), 0.0)


def global_state(surroundings: Surroundings, is_enemy: jax.Array | np.ndarray, unit_type: jax.Array) -> jax.Array:
    """All units, regardless of visibility, in map units: `[12 N, …]`, the layout of JaxMARL's world state.

    A block of ten per unit (health/max, x, y, cooldown in seconds, type one-hot; zero if dead), then the team of each
    unit (0 ally, 1 enemy), then its type.
    """
    bodies = surroundings.bodies
    blocks = _with_type(surroundings, [_health_fraction(surroundings), bodies.x, bodies.y, bodies.cooldown])
    blocks = jnp.where(surroundings.alive[:, None], blocks, 0.0).reshape(-1, *bodies.x.shape[1:])
    labels = [jnp.broadcast_to(v, bodies.x.shape).astype(jnp.float32) for v in (is_enemy, unit_type)]
    return jnp.concatenate([blocks, *labels])


def state_entities(num_allies: int, num_enemies: int, num_types: int) -> Entities:
    """What `global_state` is made of, for teams of these sizes; the labels at its end say nothing new."""
    size, units = NUM_OWN_BASE + num_types, num_allies + num_enemies
    scale = (1.0, _PER_PLACE, _PER_PLACE, 1.0, *(1.0,) * num_types)
    ally = Group("ally", num_allies, ((0, size),), scale=scale)
    enemy = Group("enemy", num_enemies, ((num_allies * size, size),), scale=scale)
    return Entities(units * (size + 2), (ally, enemy), unused=((units * size, 2 * units),))


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


def _blocks_of_others(surroundings: Surroundings, num_observers: int, see_actions: jax.Array) -> jax.Array:
    """The blocks of the N - 1 others, one after another, for the first M units: `[…, M, 13 (N - 1)]`.

    This is most of what an environment step has to write. It takes a third of the time if every operation runs along
    the last axis: over a table of what all units show, of which observers leave out their own block.
    """
    bodies, batch = surroundings.bodies, surroundings.bodies.x.shape[1:]
    shown = table(surroundings)
    width = shown.shape[1]
    far = jnp.where(surroundings.alive, bodies.x, _FAR)
    shown, x, y = (_side_by_side(v, width) for v in (shown, far[:, None], bodies.y[:, None]))

    other, feature = np.divmod(np.arange(shown.shape[-1] - width), width)
    behind = other >= np.arange(num_observers)[:, None]  # the observer, in the order of units

    def of_others(values: jax.Array) -> jax.Array:
        return jnp.where(behind, values[..., None, width:], values[..., None, :-width])

    def of_observers(values: jax.Array) -> jax.Array:
        return jnp.moveaxis(jnp.broadcast_to(values[:num_observers], (num_observers, *batch)), 0, -1)[..., None]

    own_x, own_y, sight = map(of_observers, (bodies.x, bodies.y, surroundings.stats.sight))
    dx, dy = of_others(x) - own_x, of_others(y) - own_y
    seen = (dx * dx + dy * dy < sight * sight) & of_observers(surroundings.alive)
    hidden = np.isin(feature, ACTION_ROWS) & (other >= num_observers - 1)  # the last actions of opponents
    seen &= ~hidden | jnp.asarray(see_actions)[..., None, None]
    origin = jnp.where(feature == 1, own_x, jnp.where(feature == 2, own_y, 0.0))
    scale = jnp.where(np.isin(feature, (1, 2)), sight, 1.0)
    return jnp.where(seen, (of_others(shown) - origin) / scale, 0.0)


def _side_by_side(rows: jax.Array, width: int) -> jax.Array:
    """Each unit's rows `[N, F, …]` side by side, or a single one repeated, in blocks of `width`: `[…, N width]`.

    By a product with zeros and ones, which is exact: XLA would fuse a transposition with what uses the result, and do
    it once for each observer.
    """
    count, num_rows = rows.shape[:2]
    place = np.eye(width, dtype=np.float32) if num_rows == width else np.ones((1, width), np.float32)
    place = np.einsum("ij,fw->fijw", np.eye(count, dtype=np.float32), place).reshape(num_rows * count, count * width)
    rows = jnp.concatenate([jnp.moveaxis(rows[:, f], 0, -1) for f in range(num_rows)], axis=-1)
    return jnp.matmul(rows, place, precision=jax.lax.Precision.HIGHEST)


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
    return jnp.concatenate([jnp.stack(rows, axis=1), types], axis=1)


def _health_fraction(surroundings: Surroundings) -> jax.Array:
    return surroundings.bodies.health / surroundings.stats.health
