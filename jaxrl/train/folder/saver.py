"""Everything that a run saves while it trains: checkpoints, the best state, rows, evaluations and events."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any

import jax

from jaxrl.algorithm import without_replay
from jaxrl.errors import CheckpointError
from jaxrl.train.callbacks import Callback
from jaxrl.train.devices import hosts
from jaxrl.train.folder.checkpoint import Checkpoints, Restored, read_manifest
from jaxrl.train.folder.disk import why
from jaxrl.train.folder.json_lines import JsonLines
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.intervals import Intervals
from jaxrl.train.metrics import rank

__all__ = ["Best", "Saver", "Writer"]


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
        self._unsaved: dict[str, str] = {}  # what could not be written at the last attempt, and a sentence about it
        self._checkpoints = Checkpoints(folder.checkpoints, keep, say) if folder else None
        self._best = Best(folder) if folder else None
        self._replay = replay
        self._tell = tell
        self._last: tuple[int, float] = (-1, time.monotonic())  # update, time
        self._took = 0.0  # seconds

    @property
    def error(self) -> CheckpointError | None:
        """The error of the last attempt to write: what failed, and why; None if everything is on disk."""
        return CheckpointError(" ".join(self._unsaved.values())) if self._unsaved else None

    def due(self, intervals: Intervals, update: int, state: Any) -> bool:
        """True if a checkpoint is due after `update` updates. All processes must call it: their clocks differ."""
        if self.folder is None:
            return False
        wish = intervals.saves(update, time.monotonic() - self._last[1], self._took)
        return hosts.main_says(wish, after=state)

    def saved(self, update: int) -> bool:
        """True if `update` is already saved, or nothing is saved at all."""
        return self.folder is None or self._last[0] == update

    def save(self, update: int, state: Any, extra: dict[str, Any], last: bool = False) -> None:
        """Save a checkpoint; a failure is reported, and the next one may succeed."""
        if self.folder is None:
            return
        began = time.monotonic()
        self._write_best()
        failed = self._attempt("The last state", lambda folder: self._save(folder, update, state, extra))
        if failed:
            self._tell("unsaved", failed if last else f"{failed} Training goes on.")
        self._last = (self._last[0] if failed else update, time.monotonic())
        self._took = time.monotonic() - began

    def _save(self, folder: RunFolder, update: int, state: Any, extra: dict[str, Any]) -> None:
        assert self._checkpoints is not None
        hosts.on_main(folder.flush, OSError)  # a checkpoint relies on the rows before it
        sizes = {"metrics_size": folder.metrics.size, "evaluations_size": folder.evaluations.size}
        self._checkpoints.save(update, state if self._replay else without_replay(state), {**extra, **sizes})

    def restore(self, state_shape: Any) -> Restored:
        """Restore the newest good checkpoint, and truncate the files of the folder to their sizes at that time.

        Raises:
            CheckpointError: There is no good checkpoint.
        """
        assert self.folder is not None
        assert self._checkpoints is not None
        restored = self._checkpoints.restore(state_shape)
        files = (self.folder.metrics, self.folder.evaluations)
        sizes = [restored.extra.get(f"{file.path.stem}_size", 0) for file in files]
        if not all(isinstance(size, int) and size >= 0 for size in sizes):
            place = self._checkpoints.folder
            raise CheckpointError(f"{place} was changed by hand: it has no good sizes of the files of rows.")
        for file, size in zip(files, sizes, strict=True):
            missing = file.truncate(size)
            if missing and hosts.is_main():
                self._tell("lost", f"{file.path} has lost the last {missing} bytes that belong to the checkpoint.")
        self._last = (restored.update, time.monotonic())
        return restored

    def keep_best(self, update: int, state: Any, row: dict[str, Any]) -> None:
        """Keep the state in best/ if its evaluation beats all others, now or as soon as writing is possible again."""
        if self._best is not None:
            self._best.offer(update, state, row)
            self._write_best()

    def note(self, about: dict[str, Any]) -> None:
        """Write run.json."""
        self._tell_if("unwritten", self._attempt("run.json", lambda folder: folder.write(about)))

    def finish(self) -> None:
        """Make sure that all rows and the best state are on disk; `error` is set if that failed."""
        self._write_best()
        self._tell_if("unwritten", self._attempt("Rows of metrics", RunFolder.flush))

    @property
    def advice(self) -> str:
        """A sentence saying where the last good checkpoint is; empty if there is none."""
        if self._checkpoints is None or self._last[0] < 0:
            return ""
        return f" The last good checkpoint is in {self._checkpoints.folder}."

    def _write_best(self) -> None:
        """Write the best state, if one waits."""
        best, waited = self._best, self._unsaved.get("The best state")
        failed = best and self._attempt("The best state", lambda _: best.write())
        if failed and not waited:
            self._tell("unsaved", f"{failed} The state waits in memory and is saved with the next checkpoint.")
        if waited and not failed:
            self._tell("saved", "The state with the best evaluation, which had to wait, is saved.")

    def _attempt(self, what: str, write: Callable[[RunFolder], object]) -> str | None:
        """A sentence if `what` could not be written."""
        self._unsaved.pop(what, None)
        try:
            if self.folder is not None:
                write(self.folder)
        except CheckpointError as error:
            self._unsaved[what] = str(error)
        except OSError as error:
            assert self.folder is not None
            self._unsaved[what] = f"{what} cannot be written: {why(error, self.folder.path)}."
        return self._unsaved.get(what)

    def _tell_if(self, kind: str, sentence: str | None) -> None:
        if sentence:
            self._tell(kind, sentence)


class Best:
    """Keeps the state with the best evaluation in `best/`. One that cannot be written waits in memory.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._checkpoints = Checkpoints(folder.best, keep=1)
        self._waiting: tuple[int, Any, dict[str, Any]] | None = None

    def offer(self, update: int, state: Any, row: dict[str, Any]) -> None:
        """Take `state`, without its replay buffer, if its evaluation beats that of the state that is kept.

        The evaluation before training does not count. All processes must call it, and `write` next.

        Args:
            update: Updates done.
            state: The train state.
            row: Its evaluation, as in evaluations.jsonl.
        """
        if hosts.main_says(bool(row["timesteps"]) and self._kept < rank(row)):
            self._waiting = update, without_replay(state), row

    def write(self) -> None:
        """Write the state that waits, if there is one. All processes must call it.

        Raises:
            CheckpointError: It cannot be written, so it still waits.
        """
        if self._waiting is None:
            return
        update, state, row = self._waiting
        try:
            self._checkpoints.save(update, state, {"evaluation": row})
        except CheckpointError:
            self._waiting = update, jax.tree.map(lambda leaf: leaf.copy(), state), row  # the loop donates its state
            raise
        self._waiting = None

    @property
    def _kept(self) -> tuple[float, float]:
        """The rank of the state that waits or is on disk; not of evaluations whose states were lost with a process."""
        if self._waiting is not None:
            return rank(self._waiting[2])
        with contextlib.suppress(
            OSError, ValueError, LookupError, TypeError
        ):  # without a good one the next is the best
            newest = self._checkpoints.folder / str(self._checkpoints.updates[-1])
            return rank(read_manifest(newest)["extra"]["evaluation"])
        return -math.inf, math.inf  # more than what is not finite


class Writer(Callback):
    """Appends to metrics.jsonl, evaluations.jsonl and events.jsonl.

    Args:
        folder: The run's folder.
        tell: `tell(kind, sentence)`, called when rows have to wait because they cannot be written.
    """

    work = "writing and showing metrics"

    def __init__(self, folder: RunFolder, tell: Callable[[str, str], None]) -> None:
        self._folder = folder
        self._tell = tell

    def row(self, row: dict[str, Any]) -> None:
        self._append(self._folder.metrics, row)

    def evaluation(self, row: dict[str, Any]) -> None:
        self._append(self._folder.evaluations, row)

    def event(self, kind: str, text: str, update: int) -> None:
        self._folder.events.append({"time": round(time.time(), 3), "update": update, "kind": kind, "text": text})

    def _append(self, file: JsonLines, row: dict[str, Any]) -> None:
        """Add a row, now or as soon as writing is possible again."""
        error = file.append(row)
        if error is not None:
            reason = why(error, file.path.parent)
            self._tell("unwritten", f"{file.path.name} cannot be written: {reason}. Its rows wait; training goes on.")
