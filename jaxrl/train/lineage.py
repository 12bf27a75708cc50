"""Hyperparameters that change from one generation of updates to the next during training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithm import Algorithm, Metrics

__all__ = ["Lineage", "at_generation", "follow_lineage", "point_at"]


class Lineage(TypedDict):
    """The entry `lineage` of run.json."""

    every_updates: int
    """Updates per generation; the last generation lasts to the end."""
    points: Sequence[Mapping[str, Any]]
    """The hyperparameters of each generation."""


def point_at(lineage: Lineage, update: int) -> Mapping[str, Any]:
    """The hyperparameters of the generation of an update, as `at_generation` takes them."""
    points = lineage["points"]
    return points[min(update // lineage["every_updates"], len(points) - 1)]


def follow_lineage(algo: Algorithm, lineage: Lineage) -> Algorithm:
    """The algorithm with hyperparameters that change every `every_updates` updates and keep their last values.

    Its train state must have the fields `hyperparams` and `update`, as in the PPO family.
    """
    points, every = lineage["points"], lineage["every_updates"]
    values = {name: np.array([point[name] for point in points], np.float32) for name in points[0]}

    def update(state: Any) -> tuple[Any, Metrics]:
        return algo.checked_update(at_generation(values, state, every))

    return algo._replace(update=update)


def at_generation(values: Mapping[str, np.ndarray | jax.Array], state: Any, every_updates: int) -> Any:
    """The train state with the hyperparameters of its generation.

    Args:
        values: A column `[G]` for each hyperparameter that changes.
        state: The train state of one member, with the fields `hyperparams` and `update`.
        every_updates: Updates per generation.
    """
    last = len(next(iter(values.values()))) - 1
    generation = jnp.minimum(state.update // every_updates, last)
    now = {name: jnp.asarray(column)[generation] for name, column in values.items()}
    return dataclasses.replace(state, hyperparams=dataclasses.replace(state.hyperparams, **now))
