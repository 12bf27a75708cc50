"""Callbacks: objects that a run notifies of its events. Progress, files, loggers and the user's own are callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jaxrl.train.health.throughput import Throughput
from jaxrl.train.metrics import metric_of, score

__all__ = ["Callback", "Callbacks", "OnRow", "OwnCallbacks", "StopAt", "goal_sentence"]

OnRow = Callable[[dict[str, Any]], bool | None]
"""The shortest callback: a function of each row of metrics, which returns True to end training there."""


class Callback:
    """A callback whose methods do nothing: override the ones you need and pass it to `fit(callbacks=[…])`.

    Training goes on meanwhile, so it ends some updates after `row` returns True, and right away after `evaluation`
    does. An exception ends it too; `fit` raises it when everything is saved.
    """

    work = "callbacks"
    """The work of the host in these methods: a message names it if the device has to wait."""
    reason = "callback"
    """The value of `Result.stopped` if this callback ends training."""

    def row(self, row: dict[str, Any]) -> bool | None:
        """A new row, as in metrics.jsonl; the user's callbacks see NaN instead of null. True ends training."""

    def evaluation(self, row: dict[str, Any]) -> bool | None:
        """A new evaluation, as in evaluations.jsonl. True ends training."""

    def end(self, result: Any) -> None:
        """Training has ended without an error, and everything is saved; `fit` returns `result`."""

    def event(self, kind: str, text: str, update: int) -> None:
        """A new event the user should know about, as in events.jsonl."""

    def phase(self, text: str) -> None:
        """A new phase begins, such as `"training"` or `"saving…"`."""


class Callbacks(Callback):
    """Several callbacks as one; it measures how long each keeps the host busy.

    Args:
        callbacks: Called in this order.
        throughput: Records the time.
    """

    def __init__(self, callbacks: Sequence[Callback], throughput: Throughput) -> None:
        self._callbacks = callbacks
        self._throughput = throughput
        self.stop: str | None = None
        """The reason to end training now, from the first callback that asked for it; None to continue."""

    def row(self, row: dict[str, Any]) -> None:
        for callback in self._each():
            self._end_if(callback.row(row), callback)

    def evaluation(self, row: dict[str, Any]) -> None:
        for callback in self._each():
            self._end_if(callback.evaluation(row), callback)

    def event(self, kind: str, text: str, update: int) -> None:
        for callback in self._each():
            callback.event(kind, text, update)

    def phase(self, text: str) -> None:
        for callback in self._each():
            callback.phase(text)

    def _end_if(self, asked: bool | None, callback: Callback) -> None:
        if asked and self.stop is None:
            self.stop = callback.reason

    def _each(self) -> Iterator[Callback]:
        for callback in self._callbacks:
            with self._throughput.host(callback.work):
                yield callback


class StopAt(Callback):
    """Ends training at the first evaluation that reaches a goal. The one before any training does not count.

    Args:
        goal: The win rate or, where there is none, the return to reach, see `score`; None never ends training.
    """

    work = "checking for the goal"
    reason = "goal"

    def __init__(self, goal: float | None) -> None:
        self._goal = goal
        self.reached: dict[str, Any] | None = None
        """For run.json: the goal, the score that reached it, and when."""

    @property
    def sentence(self) -> str:
        """A sentence that says that the goal is reached; empty before."""
        return "" if self.reached is None else goal_sentence(self.reached)

    def evaluation(self, row: dict[str, Any]) -> bool:
        if self._goal is not None and self.reached is None and row["timesteps"] and score(row) >= self._goal:
            facts = {"metric": metric_of(row), "score": score(row), "timesteps": row["timesteps"]}
            self.reached = {"stop_at": self._goal, **facts}
        return self.reached is not None


def goal_sentence(reached: Mapping[str, Any]) -> str:
    """The entry `goal` of run.json as a sentence."""
    name = "win rate" if reached["metric"] == "win_rate" else "return"
    return (
        f"The goal is reached: after {reached['timesteps']:,} steps the {name} is {reached['score']:.4g}, at least "
        f"{reached['stop_at']:.4g}."
    )


class OwnCallbacks(Callback):
    """The user's callbacks. The first exception in one of them ends training and is kept in `error`.

    Args:
        callbacks: `Callback` objects, or functions of a row.
    """

    def __init__(self, callbacks: Sequence[Callback | OnRow]) -> None:
        if isinstance(callbacks, Callback) or callable(callbacks):
            raise TypeError("callbacks is a list, also of a single one; write callbacks=[…].")
        self._callbacks = [each if isinstance(each, Callback) else _Function(each) for each in callbacks]
        self.error: Exception | None = None

    def row(self, row: dict[str, Any]) -> bool:
        return self._each(lambda callback: callback.row(_with_nan(row)))

    def evaluation(self, row: dict[str, Any]) -> bool:
        return self._each(lambda callback: callback.evaluation(_with_nan(row)))

    def end(self, result: Any) -> None:
        for callback in self._callbacks:
            callback.end(result)

    def event(self, kind: str, text: str, update: int) -> None:
        self._each(lambda callback: callback.event(kind, text, update))

    def phase(self, text: str) -> None:
        self._each(lambda callback: callback.phase(text))

    def _each(self, call: Callable[[Callback], bool | None]) -> bool:
        """True if one of them asks to end training. After an exception, no callback is called again."""
        ends = self.error is not None
        try:
            for callback in [] if ends else self._callbacks:
                ends |= bool(call(callback))
        except Exception as error:
            self.error, ends = error, True
        return ends


class _Function(Callback):
    """A function of a row."""

    def __init__(self, function: OnRow) -> None:
        if not callable(function) or isinstance(function, type):
            raise TypeError(
                f"callbacks holds {function!r}, which is neither a Callback object nor a function of a row; write "
                f"callbacks=[MyCallback()] or callbacks=[lambda row: row['return_mean'] > 400]."
            )
        self._function = function

    def row(self, row: dict[str, Any]) -> bool | None:
        return self._function(row)


def _with_nan(value: Any) -> Any:
    """A row in which None is NaN, which can be compared with numbers."""
    if isinstance(value, dict):
        return {name: _with_nan(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_nan(inner) for inner in value]
    return math.nan if value is None else value
