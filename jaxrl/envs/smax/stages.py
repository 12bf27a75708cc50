"""Curricula for `--params`: battles that teach something else at the beginning of the training."""

from __future__ import annotations

import dataclasses

import jax

from jaxrl.envs.smax.state import Params

__all__ = ["costly_losses"]

_TWICE = 2.0


def costly_losses(key: jax.Array, params: Params, progress: jax.Array) -> Params:
    """Battles in which the team's own health is worth twice that of the enemies at first.

    So a team that is outnumbered does not meet them head on: it hides, and finds out whom it can kill from there. It is
    so for the first third of the training, and the cost falls to the true one in the second. `key` is not used.
    """
    true = params.damage_cost
    return dataclasses.replace(params, damage_cost=true + (_TWICE - true) * (2 - 3 * progress).clip(0.0, 1.0))
