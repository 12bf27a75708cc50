"""Curricula for `--params`: battles that teach something else at the beginning of the training."""

from __future__ import annotations

import dataclasses

import jax

from jaxrl.envs.smax.state import Params

__all__ = ["costly_losses"]


def costly_losses(key: jax.Array, params: Params, progress: jax.Array) -> Params:
    """The team's own health is worth as much as the enemies', so one that is outnumbered looks for other ways to win.

    It is so for the first half of the training, and the cost falls to the true one in the next quarter. `key` is not
    used.
    """
    true = params.damage_cost
    return dataclasses.replace(params, damage_cost=true + (1 - true) * (3 - 4 * progress).clip(0.0, 1.0))
