"""Curricula for `--params`: games that are easier to learn at the beginning of the training."""

from __future__ import annotations

import dataclasses

import jax

from jaxrl.envs.hanabi.env import Params

__all__ = ["kept_points"]

_FREE, _STRICT = 0.3, 0.7


def kept_points(key: jax.Array, params: Params, progress: jax.Array) -> Params:
    """Games in which the team keeps its points when it loses its last life, as long as it is learning to make them.

    A team that would lose them wastes its first lives, and with the last one it hardly dares to play. It keeps them for
    the first 0.3 of the training; from 0.7 on it loses the share that it should. `key` is not used.
    """
    share = ((progress - _FREE) / (_STRICT - _FREE)).clip(0.0, 1.0)
    return dataclasses.replace(params, lost_share=params.lost_share * share)
