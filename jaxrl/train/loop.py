"""The host's side of training: hand chunk after chunk to the device, and do everything else while it works."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax

from jaxrl.algorithm import Metrics
from jaxrl.train.best import keep_best
from jaxrl.train.checkpoint import CheckpointError, Checkpoints
from jaxrl.train.divergence import DivergedError, Divergence
from jaxrl.train.loggers import Logger
from jaxrl.train.members import Members
from jaxrl.train.metrics import RowMaker
from jaxrl.train.programs import Programs
from jaxrl.train.progress import Progress
from jaxrl.train.run_folder import RunFolder
from jaxrl.train.schedule import Clock, Pacer, Schedule
from jaxrl.train.signals import StopRequest
from jaxrl.train.skip import Skips

__all__ = ["DivergedError", "Loop", "OnRow"]

OnRow = Callable[[dict[str, Any]], bool | None]


class Loop:
    """One run, from a train state to a later one.

    Args:
        programs: What was compiled.
        schedule: What happens when.
        rows: Makes rows of metrics.
        members: Who is trained.
        progress: Shows how it goes.
        folder: Where rows and evaluations are written, or None.
        checkpoints: Where states are saved, or None.
        logger: Told of rows and evaluations besides, or None.
        on_row: Called with every row; if it returns True, training ends there.
    """

    def __init__(
        self,
        programs: Programs,
        schedule: Schedule,
        rows: RowMaker,
        *,
        members: Members,
        progress: Progress,
        folder: RunFolder | None = None,
        checkpoints: Checkpoints | None = None,
        logger: Logger | None = None,
        on_row: OnRow | None = None,
    ) -> None:
        self.programs = programs
        self.schedule = schedule
        self.rows = rows
        self.clock = Clock()
        self.table: list[dict[str, Any]] = []
        """All rows of the run."""
        self.stopped: str | None = None
        """Why training ended early: the name of a signal, or `"on_row"`."""
        self.save_error: CheckpointError | None = None
        """Of the last save, if it failed."""
        self.divergence = Divergence(members, schedule.num_updates, self._advice)
        self._skips = Skips(members, schedule.num_updates, programs.state_shape)
        self._progress = progress
        self._folder = folder
        self._checkpoints = checkpoints
        self._logger = logger or Logger()
        self._on_row = on_row
        self._pacer = Pacer(programs.max_chunk)
        self._pending: tuple[int, Metrics] | None = None
        self._chunk_began = 0.0
        self._saved_at: tuple[int, float] = (-1, time.monotonic())  # update, moment

    # The loop. The device always has the next chunk in its queue while the host reads the metrics of the last one.

    def run(self, state: Any) -> Any:
        """Train to the end, or until something stops it; the state is then saved and returned.

        Raises:
            DivergedError: Every member's losses are NaN or infinite. The last good checkpoint is kept.
        """
        update = self.rows.update
        self._progress.phase("training")
        self._start_clock()
        with StopRequest() as stop:
            while update < self.schedule.num_updates and not (stop or self.stopped):
                n = self._pacer.next(self.schedule.until_next_stop(update))
                state, metrics = self.programs.chunk(state, n)
                update += n
                self._read(state)
                self._pending = (n, metrics)
                self._pause(state, update)
            self._read(state)
            self.stopped = stop.name or self.stopped
            self._save(state, update)
        self.clock.stop()
        return state

    def _pause(self, state: Any, update: int) -> None:
        """Evaluate and save, if either is due; both need the chunk to have ended."""
        saves = self.schedule.saves(update, time.monotonic() - self._saved_at[1])
        if self.schedule.evaluates(update):
            self._read(state)
            self.evaluate(state)
        if saves:
            self._read(state)
            self._save(state, update)

    def _read(self, state: Any) -> None:
        """Wait for the pending chunk's metrics and make rows of them."""
        if self._pending is None:
            return
        n, metrics = self._pending[0], jax.device_get(self._pending[1])
        self._pending = None
        began, ended = self._chunk_began, self.clock.seconds
        self._chunk_began = ended
        self._pacer.measured(n, ended - began)
        metrics = jax.tree.map(lambda leaf: leaf[:n], metrics)
        metrics, said = self._skips.take(metrics, self.rows.update)
        for text in said + self.divergence.check_losses(metrics, self.rows.update, state):
            self._progress.say(text)
        for row in self.rows.feed(metrics, began, ended):
            self.table.append(row)
            if self._folder is not None:
                self._folder.metrics.append(row)
            self._progress.row(row)
            self._logger.row(row)
            if self._on_row is not None and self._on_row(row):
                self.stopped = "on_row"

    def _start_clock(self) -> None:
        self.clock.start()
        self._chunk_began = self.clock.seconds

    # Evaluation

    def evaluate(self, state: Any) -> dict[str, Any]:
        """Evaluate `state` with its current parameters and write the summary down; the clock stands still meanwhile."""
        running = self.clock.running
        self.clock.stop()
        self._progress.phase("evaluating…")
        played = jax.device_get(self.programs.evaluate(state))
        if not played.finished.all():
            self._progress.say(f"{(~played.finished).sum()} episodes of the evaluation had no end and were cut.")
        summary = played.summary()
        row = {"timesteps": self.rows.timesteps, "seconds": round(self.clock.seconds, 4), **summary}
        if self._folder is not None:
            self._folder.evaluations.append(row)
            if self.schedule.eval_every and self.rows.update:
                failed = keep_best(self._folder, self.rows.update, state)
                if failed:
                    self._progress.say(str(failed))
        self._progress.evaluation(row)
        self._logger.evaluation(row)
        self._progress.phase("training")
        if running:
            self._start_clock()
        return summary

    # Checkpoints

    def restore(self, state_shape: Any) -> Any:
        """Continue from the newest good checkpoint: the state, the rows, the clock and the files of the folder."""
        assert self._checkpoints is not None
        assert self._folder is not None
        restored = self._checkpoints.restore(state_shape)
        self.rows.load(restored.extra["rows"])
        self.clock = Clock(restored.extra["seconds"])
        self._folder.metrics.truncate(restored.extra["metrics_size"])
        self._folder.evaluations.truncate(restored.extra["evaluations_size"])
        self.table = self._folder.metrics.read()
        self._saved_at = (restored.update, time.monotonic())
        return restored.state

    def _save(self, state: Any, update: int) -> None:
        if self._checkpoints is None or self._folder is None or self._saved_at[0] == update:
            return
        self.divergence.check_params(state)
        extra = {
            "rows": self.rows.save(),
            "seconds": self.clock.seconds,
            "metrics_size": self._folder.metrics.size,
            "evaluations_size": self._folder.evaluations.size,
        }
        self._progress.phase("saving…")
        try:
            self._checkpoints.save(update, state, extra)
            self.save_error, saved = None, update
        except CheckpointError as error:  # training goes on; the next save may succeed
            self.save_error, saved = error, self._saved_at[0]
            self._progress.say(str(error))
        self._saved_at = (saved, time.monotonic())
        self._progress.phase("training")

    def _advice(self) -> str:
        kept = (
            f" The last good checkpoint is in {self._checkpoints.folder}."
            if self._saved_at[0] >= 0 and self._checkpoints
            else ""
        )
        return f"Try a lower --lr or a lower --max-grad-norm.{kept}"
