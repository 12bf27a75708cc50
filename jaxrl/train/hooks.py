"""Hooks: objects that a run notifies of its events. Progress, files, loggers and the user's callback are hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jaxrl.train.health.throughput import Throughput

__all__ = ["Hook", "Hooks", "OnRow", "RowHook"]

OnRow = Callable[[dict[str, Any]], bool | None]
"""Called with each row of metrics; returns True to end training there."""


class Hook:
    """A hook whose methods do nothing: override the ones you need. The loop calls them while the device works."""

    work = "hooks"
    """What the host does in these methods, for the report if the device has to wait for it."""

    def phase(self, text: str) -> None:
        """A new phase begins, such as `"training"` or `"saving…"`."""

    def row(self, row: dict[str, Any]) -> None:
        """A new row, as in metrics.jsonl."""

    def evaluation(self, row: dict[str, Any]) -> None:
        """A new evaluation, as in evaluations.jsonl."""

    def event(self, kind: str, text: str, update: int) -> None:
        """A new event the user should know about, as in events.jsonl."""

    @property
    def stop(self) -> str | None:
        """The reason to end training now; None to continue."""
        return None


class Hooks:
    """Several hooks as one; it measures how long each keeps the host busy.

    Args:
        hooks: Called in this order.
        throughput: Records the time.
    """

    def __init__(self, hooks: Sequence[Hook], throughput: Throughput) -> None:
        self._hooks = hooks
        self._throughput = throughput

    def phase(self, text: str) -> None:
        """See `Hook.phase`."""
        for hook in self._each():
            hook.phase(text)

    def row(self, row: dict[str, Any]) -> None:
        """See `Hook.row`."""
        for hook in self._each():
            hook.row(row)

    def evaluation(self, row: dict[str, Any]) -> None:
        """See `Hook.evaluation`."""
        for hook in self._each():
            hook.evaluation(row)

    def event(self, kind: str, text: str, update: int) -> None:
        """See `Hook.event`."""
        for hook in self._each():
            hook.event(kind, text, update)

    @property
    def stop(self) -> str | None:
        """The first hook's reason to end training; None if no hook has one."""
        return next((hook.stop for hook in self._hooks if hook.stop), None)

    def _each(self) -> Iterator[Hook]:
        for hook in self._hooks:
            with self._throughput.host(hook.work):
                yield hook


class RowHook(Hook):
    """The user's function, which may end training. An exception in it also ends training: `error` is raised later."""

    work = "on_row"

    def __init__(self, on_row: OnRow) -> None:
        self._on_row = on_row
        self._ends = False
        self.error: Exception | None = None

    def row(self, row: dict[str, Any]) -> None:
        if self._ends:
            return
        try:
            self._ends = bool(self._on_row(row))
        except Exception as error:
            self.error, self._ends = error, True

    @property
    def stop(self) -> str | None:
        return "on_row" if self._ends else None
