"""Hyperparameters that change from one generation of updates to the next during training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, Metrics

__all__ = ["Lineage", "follow_lineage"]


class Lineage(TypedDict):
    """The entry `lineage` of run.json."""

    every_updates: int
    """Updates per generation; the last generation lasts to the end."""
    points: Sequence[Mapping[str, Any]]
    """The hyperparameters of each generation."""


def follow_lineage(algo: Algorithm, lineage: Lineage) -> Algorithm:
    """The algorithm with hyperparameters that change every `every_updates` updates and keep their last values.

    Its train state must have the fields `hyperparams` and `update`, as in the PPO family.
    """
    points, every = lineage["points"], lineage["every_updates"]
    values = {name: np.array([point[name] for point in points], np.float32) for name in points[0]}

    def update(state: Any) -> tuple[Any, Metrics]:
        generation = jnp.minimum(state.update // every, len(points) - 1)
        now = {name: jnp.asarray(column)[generation] for name, column in values.items()}
        return algo.update(dataclasses.replace(state, hyperparams=dataclasses.replace(state.hyperparams, **now)))

    return algo._replace(update=update)
