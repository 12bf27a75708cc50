"""Hyperparameters that change while training: whose they were, and how to train with them again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, Metrics
from jaxrl.train.search_space import Point

__all__ = ["lineage", "scheduled"]


def lineage(parent: np.ndarray, member: int) -> list[int]:
    """The members that a member of a population descends from, one a generation, itself the last.

    Args:
        parent: int `[M, G]`, whom each member took over when the generation began; itself if nobody.
        member: Which one.
    """
    line = [member]
    for g in range(parent.shape[1] - 1, 0, -1):
        line.append(int(parent[line[-1], g]))
    return line[::-1]


def scheduled(algo: Algorithm, schedule: Sequence[Point], every: int) -> Algorithm:
    """The algorithm with hyperparameters that change every so many updates and then stay as the last ones.

    Its train state must have the fields `hyperparams` and `update`, as those of the PPO family.
    """
    values = {name: np.array([point[name] for point in schedule], np.float32) for name in schedule[0]}

    def update(state: Any) -> tuple[Any, Metrics]:
        generation = jnp.minimum(state.update // every, len(schedule) - 1)
        now = {name: jnp.asarray(column)[generation] for name, column in values.items()}
        return algo.update(dataclasses.replace(state, hyperparams=dataclasses.replace(state.hyperparams, **now)))

    return algo._replace(update=update)
