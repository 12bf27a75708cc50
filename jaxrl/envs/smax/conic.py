"""Observations of a battle sorted by direction: 32 sections of a circle, two units in each.

Arrays are `[N, …]` with batch axes behind the units, as in `dynamics`. The size does not depend on the number of units.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.smax import observe

__all__ = ["NUM_SLOTS", "conic"]

_SECTIONS = 32
_PER_SECTION = 2
NUM_SLOTS = _SECTIONS * _PER_SECTION


def conic(
    surroundings: observe.Surroundings,
    observers: slice,
    see_actions: jax.Array,
    size: tuple[jax.Array, jax.Array],
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
    seen = observe.blocks(surroundings, me, lambda values: values[None], is_mate, see_actions, see_dead=jaxmarl)

    dx, dy = surroundings.bodies.x[None] - me.bodies.x[:, None], surroundings.bodies.y[None] - me.bodies.y[:, None]
    sight = me.stats.sight[:, None]
    visible = (dx * dx + dy * dy < sight * sight) & me.alive[:, None]
    visible &= _column(np.arange(num_units) != own_row[:, None], dx.ndim)
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
    return jnp.concatenate([chosen.reshape(chosen.shape[0], -1, *dx.shape[2:]), observe.own_features(me, size)], axis=1)


def _column(values: np.ndarray, ndim: int) -> np.ndarray:
    return values.reshape(values.shape + (1,) * (ndim - values.ndim))
