"""What units see of a battle: the unit list (for agents) and the global state (for central critics).

Arrays are `[N, …]` with batch axes behind the units, as in `dynamics`. The layout is JaxMARL's.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.envs.smax.dynamics import Bodies
from jaxrl.envs.smax.units import UnitStats

__all__ = ["NUM_OTHER_BASE", "NUM_OWN_BASE", "Scene", "flip", "global_state", "in_range", "unit_list"]

NUM_OTHER_BASE = 7  # health, dx, dy, movement x and y, attack, cooldown; then the type, one-hot
NUM_OWN_BASE = 4  # health, x, y, cooldown; then the type, one-hot


class Scene(NamedTuple):
    """Everything an observation is made of, leaves `[N, …]` (one-hot types `[N, K, …]`)."""

    bodies: Bodies
    stats: UnitStats
    type_one_hot: jax.Array
    move_x: jax.Array  # last movement direction
    move_y: jax.Array
    attack: jax.Array  # last attack, already scaled to 0 … 1

    @property
    def alive(self) -> jax.Array:
        """Who lives, bool `[N, …]`."""
        return self.bodies.health > 0


def flip(tree: Scene) -> Scene:
    """The scene with the order of the units reversed, so that enemies stand where allies did and see as they do."""
    return jax.tree.map(lambda leaf: leaf[::-1], tree)


def unit_list(scene: Scene, num_observers: int, see_actions: jax.Array, size: tuple[jax.Array, jax.Array]) -> jax.Array:
    """What the first `num_observers` units see: `[N_observers, 13 (N-1) + 10, …]` for six types.

    One block for each other unit, in order: health/max, dx and dy over the observer's sight range, last movement x
    and y, last attack (index over its largest value), cooldown (clipped to 0 … 1 of a full one), type one-hot. A
    block is zero unless both live and the unit is within sight. Then the own block: health/max, x/width, y/height,
    cooldown, type one-hot; zero for the dead.
    """
    me = jax.tree.map(lambda leaf: leaf[:num_observers], scene)
    dx, dy = (_others(v, num_observers) - v[:num_observers, None] for v in (scene.bodies.x, scene.bodies.y))
    sight = me.stats.sight[:, None]
    visible = (dx * dx + dy * dy < sight * sight) & me.alive[:, None] & _others(scene.alive, num_observers)
    num_mates = num_observers - 1
    is_mate = (jnp.arange(dx.shape[1]) < num_mates).reshape((1, -1) + (1,) * (dx.ndim - 2))
    seen_acting = visible & (is_mate | see_actions)
    shown = [
        (visible, _others(_health_fraction(scene), num_observers)),
        (visible, dx / sight),
        (visible, dy / sight),
        (seen_acting, _others(scene.move_x, num_observers)),
        (seen_acting, _others(scene.move_y, num_observers)),
        (seen_acting, _others(scene.attack, num_observers)),
        (visible, _others(_cooldown_fraction(scene), num_observers)),
    ]
    types = scene.type_one_hot
    shown += [(visible, _others(types[:, k], num_observers)) for k in range(types.shape[1])]
    blocks = jnp.stack([jnp.where(seen, value, 0.0) for seen, value in shown], axis=2)
    blocks = blocks.reshape(num_observers, -1, *dx.shape[2:])

    own = [_health_fraction(me), me.bodies.x / size[0], me.bodies.y / size[1], _cooldown_fraction(me)]
    own += [jnp.broadcast_to(me.type_one_hot[:, k], me.bodies.x.shape) for k in range(types.shape[1])]
    own = jnp.where(me.alive[:, None], jnp.stack(own, axis=1), 0.0)
    return jnp.concatenate([blocks, own], axis=1)


def global_state(scene: Scene, is_enemy: jax.Array, unit_type: jax.Array) -> jax.Array:
    """All units, unhidden and in map units: `[12 N, …]`, the layout of JaxMARL's world state.

    A block of ten a unit (health/max, x, y, cooldown in seconds, type one-hot; zero for the dead), then the team of
    each unit (0 ally, 1 enemy), then its type.
    """
    bodies = scene.bodies
    types = jnp.moveaxis(jnp.broadcast_to(scene.type_one_hot, (*scene.type_one_hot.shape[:2], *bodies.x.shape[1:])), 1, 0)
    blocks = jnp.stack([_health_fraction(scene), bodies.x, bodies.y, bodies.cooldown, *types], axis=1)
    blocks = jnp.where(scene.alive[:, None], blocks, 0.0).reshape(-1, *bodies.x.shape[1:])
    labels = [jnp.broadcast_to(v, bodies.x.shape).astype(jnp.float32) for v in (is_enemy, unit_type)]
    return jnp.concatenate([blocks, *labels])


def in_range(bodies: Bodies, reach: jax.Array, num_allies: int) -> tuple[jax.Array, jax.Array]:
    """Which opponents each living unit has within `reach[N, …]` and alive: `([A, E, …], [E, A, …])`, both in index order."""
    alive = bodies.health > 0
    dx = bodies.x[:num_allies, None] - bodies.x[None, num_allies:]
    dy = bodies.y[:num_allies, None] - bodies.y[None, num_allies:]
    square = dx * dx + dy * dy
    both = alive[:num_allies, None] & alive[None, num_allies:]
    of_allies = both & (square < jnp.square(reach[:num_allies, None]))
    of_enemies = both & (square < jnp.square(reach[None, num_allies:]))
    return of_allies, jnp.swapaxes(of_enemies, 0, 1)


def _others(values: jax.Array, num_observers: int) -> jax.Array:
    """`[N, …]` seen by each observer, itself left out: `[N_observers, N-1, …]`."""
    others = values.shape[0] - 1
    row = jnp.arange(num_observers).reshape((-1, 1) + (1,) * (values.ndim - 1))
    column = jnp.arange(others).reshape((1, -1) + (1,) * (values.ndim - 1))
    return jnp.where(column < row, values[None, :-1], values[None, 1:])


def _health_fraction(scene: Scene) -> jax.Array:
    return scene.bodies.health / scene.stats.health


def _cooldown_fraction(scene: Scene) -> jax.Array:
    return jnp.clip(scene.bodies.cooldown / scene.stats.cooldown, 0.0, 1.0)
