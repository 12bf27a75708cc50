"""The intervals of a run: how many updates the next chunk has, and when to log, evaluate and save."""

from __future__ import annotations

import dataclasses
import math
import time

from jaxrl.config import typed

__all__ = ["ChunkSizer", "Clock", "Intervals", "checks_of_goal"]


DEFAULT_MINUTES = 5.0
"""Minutes between checkpoints. Saving one takes about a tenth of a second."""

GOAL_CHECKS = 20
"""The default number of evaluations in a run that stops at a goal."""

MAX_SHARE = 0.02
"""The largest share of the time to spend on checkpoints that are saved by time."""


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Intervals in updates (and minutes). None stands for the default, which each field states."""

    num_updates: int
    """The number of updates in the whole run."""
    log_every: int | None = None
    """Updates per row of metrics.jsonl (default: the smallest number that gives at most 500 rows)."""
    eval_every: int | None = None
    """Updates between evaluations (default: only at the start and at the end; 20 evaluations with `stop_at`)."""
    checkpoint_every_updates: int | None = None
    """Updates between checkpoints, in addition to those by time and the one at the end."""
    checkpoint_every_minutes: float | None = None
    """Minutes between checkpoints (default: 5)."""
    stop_at: float | None = None
    """The score of an evaluation at which training ends (default: never)."""

    def __post_init__(self) -> None:
        if self.num_updates < 1:
            raise ValueError(
                "total_timesteps is less than one update (num_envs * num_steps); raise it or lower one of them."
            )
        for name in ("log_every", "eval_every", "checkpoint_every_updates", "checkpoint_every_minutes"):
            value = typed(name, (float if name.endswith("minutes") else int) | None, getattr(self, name))
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, got {value}; leave it out for the default.")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "stop_at", typed("stop_at", float | None, self.stop_at))

    @property
    def updates_in_row(self) -> int:
        """`log_every`, or its default."""
        return self.log_every or math.ceil(self.num_updates / 500)

    @property
    def updates_to_evaluation(self) -> int | None:
        """`eval_every`, or its default."""
        if self.eval_every is None and self.stop_at is not None:
            return checks_of_goal(self.num_updates)
        return self.eval_every

    @property
    def saves_on_demand(self) -> bool:
        """True if the user asked for checkpoints beyond the default ones."""
        return bool(self.checkpoint_every_updates or self.checkpoint_every_minutes)

    def until_next_stop(self, update: int) -> int:
        """The number of updates from `update` to the next point where the loop has to pause."""
        intervals = (self.updates_to_evaluation, self.checkpoint_every_updates)
        stops = [_next(every, update) for every in intervals if every]
        return min([self.num_updates, *stops]) - update

    def evaluates(self, update: int) -> bool:
        """True if an evaluation is due after `update` updates, not counting those at the start and the end."""
        every = self.updates_to_evaluation
        return every is not None and 0 < update < self.num_updates and update % every == 0

    def saves(self, update: int, since_save: float, save_took: float = 0.0) -> bool:
        """True if a checkpoint is due after `update` updates, not counting the one at the end.

        Args:
            update: Updates done.
            since_save: Seconds since the last checkpoint.
            save_took: Seconds it took to save. Saving by time costs at most `MAX_SHARE`, however large the state is.
        """
        by_updates = self.checkpoint_every_updates and update % self.checkpoint_every_updates == 0
        minutes = self.checkpoint_every_minutes or DEFAULT_MINUTES
        by_time = since_save >= max(60 * minutes, save_took / MAX_SHARE)
        return update < self.num_updates and bool(by_updates or by_time)


def checks_of_goal(num_updates: int) -> int:
    """The updates between evaluations of a run with a goal, unless `eval_every` says otherwise."""
    return math.ceil(num_updates / GOAL_CHECKS)


class ChunkSizer:
    """Chooses the number of updates in a chunk so that a chunk lasts about `seconds`.

    That is long enough to cost nothing and short enough to answer signals and show progress.
    """

    def __init__(self, max_chunk: int, seconds: float = 0.5) -> None:
        self._max_chunk = max_chunk
        self._seconds = seconds
        self._next = 1

    def next(self, limit: int) -> int:
        """Updates for the next chunk, at most `limit`."""
        return max(1, min(self._next, self._max_chunk, limit))

    def measured(self, updates: int, seconds: float) -> None:
        """Record that a chunk of `updates` took `seconds`. Growth is limited: the first chunks tell little."""
        wanted = int(self._seconds * updates / max(seconds, 1e-6))
        self._next = max(1, min(wanted, 4 * updates))


class Clock:
    """Counts the seconds of training; it is stopped during evaluation, which is not training."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._before = seconds
        self._since: float | None = None

    @property
    def running(self) -> bool:
        """True if the clock is running."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """The seconds of training so far."""
        return self._before + (time.perf_counter() - self._since if self._since is not None else 0.0)

    def start(self) -> None:
        """Start or continue."""
        self._since = time.perf_counter()

    def stop(self) -> None:
        """Pause."""
        self._before, self._since = self.seconds, None


def _next(every: int, update: int) -> int:
    return (update // every + 1) * every
