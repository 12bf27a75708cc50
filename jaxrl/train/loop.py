"""The host's side of training: hand chunk after chunk to the device, and do everything else while it works."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

import jax

from jaxrl.algorithm import Metrics
from jaxrl.errors import CheckpointError, DivergedError
from jaxrl.train.devices import hosts
from jaxrl.train.folder.best import keep_best
from jaxrl.train.folder.checkpoint import Checkpoints
from jaxrl.train.folder.disk import why
from jaxrl.train.folder.json_lines import JsonLines
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.health.divergence import Divergence
from jaxrl.train.health.nan_guard import NanGuard
from jaxrl.train.health.stragglers import Stragglers
from jaxrl.train.health.throughput import Throughput
from jaxrl.train.intervals import ChunkSizer, Clock, Intervals
from jaxrl.train.live.progress import Progress
from jaxrl.train.loggers import Logger
from jaxrl.train.members import Members
from jaxrl.train.metrics import RowMaker
from jaxrl.train.programs import Programs
from jaxrl.train.signals import StopRequest

__all__ = ["Loop", "OnRow"]

OnRow = Callable[[dict[str, Any]], bool | None]


class Loop:
    """One run, from a train state to a later one.

    Args:
        programs: What was compiled.
        intervals: What happens when.
        rows: Makes rows of metrics.
        members: Who is trained.
        progress: Shows how it goes.
        folder: Where rows and evaluations are written, or None.
        checkpoints: Where states are saved, or None.
        logger: Told of rows and evaluations besides, or None.
        on_row: Called with every row; if it returns True, training ends there. If it raises, so does `run`, but only
            after saving.
    """

    def __init__(
        self,
        programs: Programs,
        intervals: Intervals,
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
        self.intervals = intervals
        self.rows = rows
        self.clock = Clock()
        self.table: list[dict[str, Any]] = []
        """All rows of the run."""
        self.stopped: str | None = None
        """Why training ended early: the name of a signal, or `"on_row"`."""
        self.save_error: CheckpointError | None = None
        """Of the last save, or of the last attempt to write another file, if it failed."""
        self.divergence = Divergence(members, intervals.num_updates, self._advice)
        self._nan_guard = NanGuard(members, intervals.num_updates, programs.state_shape)
        self._progress = progress
        self._folder = folder
        self._checkpoints = checkpoints
        self._logger = logger or Logger()
        self._on_row = on_row
        self._throughput = Throughput(self._tell_of_time)
        self._stragglers = Stragglers(self._tell)
        self._chunk_sizer = ChunkSizer(programs.max_chunk)
        self._pending: tuple[int, Metrics] | None = None
        self._raised: Exception | None = None  # by on_row
        self._chunk_began = 0.0
        self._saved_at: tuple[int, float] = (-1, time.monotonic())  # update, moment
        self._save_took = 0.0  # seconds

    # The loop. The device always has the next chunk in its queue while the host reads the metrics of the last one.

    def run(self, state: Any) -> Any:
        """Train to the end, or until something stops it; the state is then saved and returned.

        Raises:
            DivergedError: Every member's losses are NaN or infinite. The last good checkpoint is kept.
            Exception: What `on_row` raised.
        """
        update = self.rows.update
        self._progress.phase("training")
        self._start_clock()
        with StopRequest() as stop, self._throughput:
            while n := self._next(update, stop, state):
                self._throughput.dispatch(n, idle=self._pending is None or _ready(self._pending[1]))
                state, metrics = self.programs.chunk(state, n)
                update += n
                self._read(state)
                self._pending = (n, metrics)
                self._pause(state, update)
            self._read(state)
            self._next(update, stop, state)
            self._save(state, update, last=True)
        self.clock.stop()
        if self._raised is not None:
            raise self._raised
        return state

    def _next(self, update: int, stop: StopRequest, state: Any) -> int:
        """Updates in the next chunk: process 0 sets the throughput, and whichever process is told to stop stops all."""
        left = self.intervals.until_next_stop(update)
        wish = (stop.name or self.stopped, self._chunk_sizer.next(left) if left else 0, self._stragglers.news())
        wishes = hosts.exchange(wish, after=state)
        self._stragglers.hear([news for _, _, news in wishes])
        self.stopped = next((why for why, _, _ in wishes if why), None)
        return 0 if self.stopped else wishes[0][1]

    def _pause(self, state: Any, update: int) -> None:
        """Evaluate and save, if either is due; both need the chunk to have ended."""
        saves = False
        if self._checkpoints is not None:
            saves = self.intervals.saves(update, time.monotonic() - self._saved_at[1], self._save_took)
            saves = hosts.main_says(saves, after=state)  # clocks differ
        if self.intervals.evaluates(update):
            self._read(state)
            self.evaluate(state)
        if saves:
            self._read(state)
            self._save(state, update)

    def _read(self, state: Any) -> None:
        """Wait for the pending chunk's metrics and make rows of them.

        Raises:
            DivergedError: After the rows up to that very update.
        """
        if self._pending is None:
            return
        n, waits = self._pending[0], not _ready(self._pending[1])
        metrics = jax.device_get(self._pending[1])
        self._pending = None
        self._throughput.finished(self.rows.update + n, waits)
        began, ended = self._chunk_began, self.clock.seconds
        self._chunk_began = ended
        self._chunk_sizer.measured(n, ended - began)
        metrics = jax.tree.map(lambda leaf: leaf[:n], metrics)
        before = self.rows.update
        metrics, said, hopeless = self._nan_guard.take(metrics, before)
        more, diverged = self.divergence.check_losses(metrics, before, state)
        for text in said + more:
            self._tell("not_finite", text)
        error = hopeless or diverged
        if error is not None and error.update is not None:
            kept = error.update - before
            metrics, ended = jax.tree.map(lambda leaf: leaf[:kept], metrics), began + (ended - began) * kept / n
        for row in self.rows.feed(metrics, began, ended):
            self._hand_on(row)
        if error is not None:
            self._end_with(error, ended)

    def _end_with(self, error: DivergedError, seconds: float) -> NoReturn:
        """Raise it, after the row that has begun: what came before tells the most about why."""
        for row in self.rows.end(seconds):
            self._hand_on(row)
        raise error

    def _hand_on(self, row: dict[str, Any]) -> None:
        """A row of metrics to everybody who wants it."""
        self.table.append(row)
        with self._throughput.host("writing and showing metrics"):
            if self._folder is not None:
                self._write(self._folder.metrics, row)
            self._progress.row(row)
            self._logger.row(row)
        with self._throughput.host("on_row"):
            self._ask_on_row(row)

    def _ask_on_row(self, row: dict[str, Any]) -> None:
        """Whether to go on. What it raises ends training as well: it is raised when the state is saved."""
        if self._on_row is None or self._raised is not None:
            return
        try:
            ends = self._on_row(row)
        except Exception as error:
            self._raised, ends = error, True
        if ends:
            self.stopped = "on_row"

    def _start_clock(self) -> None:
        self.clock.start()
        self._chunk_began = self.clock.seconds
        self._throughput.pause()

    # Evaluation

    def evaluate(self, state: Any) -> dict[str, Any]:
        """Evaluate `state` with its current parameters and write the summary down; the clock stands still meanwhile."""
        running = self.clock.running
        self.clock.stop()
        self._throughput.pause()
        self._progress.phase("evaluating…")
        played = jax.device_get(self.programs.evaluate(state))
        if warning := played.warning():
            self._progress.say(warning)
        summary = hosts.main_says(played.summary())
        row = {"timesteps": self.rows.timesteps, "seconds": round(self.clock.seconds, 4), **summary}
        if self._folder is not None:
            self._write(self._folder.evaluations, row)
            if self.intervals.eval_every and self.rows.update:
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
        for file in (self._folder.metrics, self._folder.evaluations):
            missing = file.truncate(restored.extra[f"{file.path.stem}_size"])
            if missing and hosts.is_main():
                self._tell("lost", f"{file.path} has lost the last {missing} bytes that belong to the checkpoint.")
        self.table = self._folder.metrics.read()
        self._saved_at = (restored.update, time.monotonic())
        self._tell("resumed", f"Continues after update {restored.update} of {self.intervals.num_updates}.")
        return restored.state

    def _save(self, state: Any, update: int, last: bool = False) -> None:
        if self._checkpoints is None or self._folder is None or self._saved_at[0] == update:
            return
        error = self.divergence.check_params(state)
        if error is not None:
            self._end_with(error, self.clock.seconds)
        self._progress.phase("saving…")
        began = time.monotonic()
        with self._throughput.host("saving checkpoints"):
            self.save_error = self._try_to_save(self._checkpoints, self._folder, state, update)
        if self.save_error is not None:
            self._tell("unsaved", f"{self.save_error}" if last else f"{self.save_error} Training goes on.")
        self._saved_at = (self._saved_at[0] if self.save_error else update, time.monotonic())
        self._save_took = time.monotonic() - began
        self._progress.phase("training")

    def _try_to_save(
        self, checkpoints: Checkpoints, folder: RunFolder, state: Any, update: int
    ) -> CheckpointError | None:
        """Returns what went wrong, if anything: the next save may succeed."""
        try:
            hosts.on_main(folder.flush, OSError)  # a checkpoint counts on the rows before it
            extra = {
                "rows": self.rows.save(),
                "seconds": self.clock.seconds,
                "metrics_size": folder.metrics.size,
                "evaluations_size": folder.evaluations.size,
            }
            checkpoints.save(update, state, extra)
        except CheckpointError as error:
            return error
        except OSError as error:
            return CheckpointError(f"No checkpoint can be written: {why(error, folder.path)}.")
        return None

    # Files and words

    def note(self, about: dict[str, Any]) -> None:
        """Write run.json."""
        self._attempt(lambda folder: folder.write(about), "run.json")

    def finish(self) -> None:
        """See to it that all rows are on the disk; `save_error` tells if that failed."""
        self._attempt(RunFolder.flush, "Rows of metrics")

    def _attempt(self, write: Callable[[RunFolder], None], what: str) -> None:
        if self._folder is None:
            return
        try:
            write(self._folder)
        except OSError as error:
            self.save_error = CheckpointError(f"{what} cannot be written: {why(error, self._folder.path)}.")
            self._tell("unwritten", str(self.save_error))

    def _write(self, file: JsonLines, row: dict[str, Any]) -> None:
        """Add a row, now or when that is possible again."""
        error = file.append(row)
        if error is not None:
            reason = why(error, file.path.parent)
            self._tell("unwritten", f"{file.path.name} cannot be written: {reason}. Its rows wait; training goes on.")

    def _tell_of_time(self, kind: str, text: str) -> None:
        self._tell(kind, text)
        self._stragglers.note(kind, text)

    def _tell(self, kind: str, text: str) -> None:
        """Say something, and write it down in events.jsonl."""
        self._progress.say(text)
        if self._folder is not None:
            now = round(time.time(), 3)
            self._folder.events.append({"time": now, "update": self.rows.update, "kind": kind, "text": text})

    def _advice(self) -> str:
        kept = (
            f" The last good checkpoint is in {self._checkpoints.folder}."
            if self._saved_at[0] >= 0 and self._checkpoints
            else ""
        )
        return f"Try a lower --lr or a lower --max-grad-norm.{kept}"


def _ready(metrics: Metrics) -> bool:
    """Whether the device is done with the chunk that these are of."""
    return all(leaf.is_ready() for leaf in jax.tree.leaves(metrics)[:1])
