"""Curricula for `--params`: worlds that are easier at the beginning of the training.

The second is a reverse curriculum (Florensa et al. 2017, https://arxiv.org/abs/1707.05300): starts near the goal first.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from jaxrl.envs.hide_and_seek.world import Params

__all__ = ["boxes_by_doors", "easy_room", "easy_room_for_hiders", "easy_room_for_seekers", "narrowing_doors"]

_WIDEST = 1.8  # metres; with the corners left free, a wall of a room in the corner has place for no more
_FARTHEST = 2.0  # metres, two thirds of the room


def narrowing_doors(key: jax.Array, params: Params, progress: jax.Array) -> Params:
    """Doors that a seeker finds by chance at first: their width is drawn between the true one and a larger one.

    The larger one falls from 1.8 m to the true one over the first two thirds of the training. Consumes `key`.
    """
    spare = (1 - 1.5 * progress).clip(0.0) * (_WIDEST - params.door_width).clip(0.0)
    return dataclasses.replace(params, door_width=params.door_width + spare * jax.random.uniform(key))


def boxes_by_doors(key: jax.Array, params: Params, progress: jax.Array) -> Params:
    """Boxes that begin before the doors at first, and farther and farther away from them.

    A box begins at a share of the way to a door that is drawn between two bounds, where anything below 0 means
    anywhere. The lower bound falls from 1 to -1/2, and the upper one from 1 to 0 in the last third of the training, so
    that it ends with the true world. Consumes `key`.
    """
    low, high = 1 - 1.5 * progress, (3 - 3 * progress).clip(max=1.0)
    share = low + (high - low) * jax.random.uniform(key)
    return dataclasses.replace(params, box_to_door=share.clip(0.0))


def easy_room(key: jax.Array, params: Params, progress: jax.Array) -> Params:
    """A room with its door in the middle of one of two walls, for agents who look all around, from beginning to end.

    So only the box can hide an agent in the room, and one bit says where the door is.
    """
    del key, progress
    return _easy(params)


def _easy(params: Params) -> Params:
    return dataclasses.replace(params, door_spread=params.door_spread * 0, half_vision=params.half_vision * 0 + np.pi)


def easy_room_for_seekers(key: jax.Array, params: Params, progress: jax.Array) -> Params:
    """`narrowing_doors` in `easy_room`. Consumes `key`."""
    return narrowing_doors(key, _easy(params), progress)


def easy_room_for_hiders(key: jax.Array, params: Params, progress: jax.Array) -> Params:
    """`boxes_by_doors` in `easy_room`, and long arms at first, a reach of up to 2 m. Consumes `key`."""
    key_boxes, key_reach = jax.random.split(key)
    spare = (1 - 1.5 * progress).clip(0.0) * (_FARTHEST - params.reach).clip(0.0)
    reach = params.reach + spare * jax.random.uniform(key_reach)
    return boxes_by_doors(key_boxes, dataclasses.replace(_easy(params), reach=reach), progress)
