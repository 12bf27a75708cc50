"""Saving and restoring the point from which a run continues: the state, and the sizes of the files beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jaxrl.algorithm import without_replay
from jaxrl.errors import CheckpointError
from jaxrl.train.devices import hosts
from jaxrl.train.folder.best import keep_best
from jaxrl.train.folder.checkpoint import Checkpoints, Restored
from jaxrl.train.folder.disk import why
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.intervals import Intervals

__all__ = ["Saver"]


class Saver:
    """The checkpoints of a run, and its other files as far as these must agree with them.

    Args:
        folder: The run's folder; None saves nothing.
        keep: How many checkpoints to keep.
        replay: Whether checkpoints keep the replay buffer, if there is one.
        say: Called with a sentence for every checkpoint that is skipped.
        tell: `tell(kind, sentence)`, called for everything that cannot be written.
    """

    def __init__(
        self,
        folder: RunFolder | None,
        keep: int,
        replay: bool,
        say: Callable[[str], None],
        tell: Callable[[str, str], None],
    ) -> None:
        self.folder = folder
        self.error: CheckpointError | None = None
        """The error of the last save, or of the last attempt to write another file, if it failed."""
        self._checkpoints = Checkpoints(folder.checkpoints, keep, say) if folder else None
        self._replay = replay
        self._tell = tell
        self._last: tuple[int, float] = (-1, time.monotonic())  # update, time
        self._took = 0.0  # seconds

    def due(self, intervals: Intervals, update: int, state: Any) -> bool:
        """Whether a checkpoint is due after `update` updates. All processes must call it: their clocks differ."""
        if self.folder is None:
            return False
        wish = intervals.saves(update, time.monotonic() - self._last[1], self._took)
        return hosts.main_says(wish, after=state)

    def saved(self, update: int) -> bool:
        """Whether `update` is already saved, or nothing is saved at all."""
        return self.folder is None or self._last[0] == update

    def save(self, update: int, state: Any, extra: dict[str, Any], last: bool = False) -> None:
        """Save a checkpoint; a failure is reported, and the next one may succeed."""
        if self.folder is None or self._checkpoints is None:
            return
        began = time.monotonic()
        self.error = None
        try:
            hosts.on_main(self.folder.flush, OSError)  # a checkpoint relies on the rows before it
            sizes = {"metrics_size": self.folder.metrics.size, "evaluations_size": self.folder.evaluations.size}
            saved = state if self._replay else without_replay(state)
            self._checkpoints.save(update, saved, {**extra, **sizes})
        except CheckpointError as error:
            self.error = error
        except OSError as error:
            self.error = CheckpointError(f"No checkpoint can be written: {why(error, self.folder.path)}.")
        if self.error is not None:
            self._tell("unsaved", f"{self.error}" if last else f"{self.error} Training goes on.")
        self._last = (self._last[0] if self.error else update, time.monotonic())
        self._took = time.monotonic() - began

    def restore(self, state_shape: Any) -> Restored:
        """Restore the newest good checkpoint, and truncate the files of the folder to their sizes at that time.

        Raises:
            CheckpointError: There is no good checkpoint.
        """
        assert self.folder is not None
        assert self._checkpoints is not None
        restored = self._checkpoints.restore(state_shape)
        for file in (self.folder.metrics, self.folder.evaluations):
            missing = file.truncate(restored.extra[f"{file.path.stem}_size"])
            if missing and hosts.is_main():
                self._tell("lost", f"{file.path} has lost the last {missing} bytes that belong to the checkpoint.")
        self._last = (restored.update, time.monotonic())
        return restored

    def keep_best(self, update: int, state: Any) -> CheckpointError | None:
        """Keep the state in best/ if the last evaluation beats all earlier ones; returns the error if that failed."""
        return None if self.folder is None else keep_best(self.folder, update, state)

    def note(self, about: dict[str, Any]) -> None:
        """Write run.json."""
        self._attempt(lambda folder: folder.write(about), "run.json")

    def finish(self) -> None:
        """Make sure that all rows are on disk; `error` is set if that failed."""
        self._attempt(RunFolder.flush, "Rows of metrics")

    @property
    def advice(self) -> str:
        """A sentence saying where the last good checkpoint is; empty if there is none."""
        if self._checkpoints is None or self._last[0] < 0:
            return ""
        return f" The last good checkpoint is in {self._checkpoints.folder}."

    def _attempt(self, write: Callable[[RunFolder], None], what: str) -> None:
        if self.folder is None:
            return
        try:
            write(self.folder)
        except OSError as error:
            self.error = CheckpointError(f"{what} cannot be written: {why(error, self.folder.path)}.")
            self._tell("unwritten", str(self.error))
