"""Looks for numbers that are not finite: what was skipped, who has diverged, whether training ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxrl.algorithm import Metrics
from jaxrl.errors import DivergedError
from jaxrl.train.health.divergence import Divergence
from jaxrl.train.health.nan_guard import NanGuard
from jaxrl.train.members import Members

__all__ = ["FiniteWatch", "Inspection"]


class Inspection(NamedTuple):
    """What is found in the metrics of some updates."""

    metrics: Metrics
    """Those up to the update that ends the run, if one does; without what only the NaN guard reads."""
    updates: int
    """How many updates these are."""
    sentences: list[str]
    """What the user should know."""
    error: DivergedError | None
    """What to end the run with, once the rows before it are written."""


class FiniteWatch:
    """The NaN guard's and the divergence's eyes on the host.

    Args:
        members: Who is trained.
        num_updates: In the whole run.
        state_shape: Of the train state.
        advice: What to tell whoever has to deal with it.
    """

    def __init__(self, members: Members, num_updates: int, state_shape: Any, advice: Callable[[], str]) -> None:
        self.divergence = Divergence(members, num_updates, advice)
        self._guard = NanGuard(members, num_updates, state_shape)

    def inspect(self, metrics: Metrics, updates: int, done: int, state: Any) -> Inspection:
        """Look at the metrics of n updates.

        Args:
            metrics: Leaves `[n, …]` or `[n, M, …]`.
            updates: n.
            done: Updates before them.
            state: The train state of now or somewhat later, for the names of parameters.
        """
        metrics, skipped, hopeless = self._guard.take(metrics, done)
        said, diverged = self.divergence.check_losses(metrics, done, state)
        error = hopeless or diverged
        if error is not None and error.update is not None:
            updates = error.update - done
            metrics = _first(metrics, updates)
        return Inspection(metrics, updates, skipped + said, error)


def _first(metrics: Metrics, updates: int) -> Metrics:
    if isinstance(metrics, dict):
        return {name: _first(value, updates) for name, value in metrics.items()}
    return metrics[:updates]
