"""Checks for numbers that are not finite: skipped updates, diverged members, whether training ends."""

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
    """The findings in the metrics of some updates."""

    metrics: Metrics
    """The metrics up to the update that ends the run, if one does, without the entries only the NaN guard reads."""
    updates: int
    """The number of updates in `metrics`."""
    sentences: list[str]
    """Sentences for the user."""
    error: DivergedError | None
    """The error that ends the run, once the rows before it are written."""


class FiniteWatch:
    """Runs the NaN guard and the divergence check on the host.

    Args:
        members: The members of the run.
        num_updates: Updates in the whole run.
        state_shape: The shapes of the train state.
        advice: Returns what to try, as the end of the error message.
        revives: Whether a member that has diverged may go on as a copy of another one.
    """

    def __init__(
        self,
        members: Members,
        num_updates: int,
        state_shape: Any,
        advice: Callable[[], str],
        *,
        revives: bool = False,
    ) -> None:
        self.divergence = Divergence(members, num_updates, advice, revives=revives)
        self._guard = NanGuard(members, num_updates, state_shape)

    def inspect(self, metrics: Metrics, updates: int, done: int, state: Any) -> Inspection:
        """Inspect the metrics of n updates.

        Args:
            metrics: Leaves `[n, …]` or `[n, M, …]`.
            updates: n.
            done: Updates done before these.
            state: The train state after these updates or somewhat later, for the names of parameters.
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
