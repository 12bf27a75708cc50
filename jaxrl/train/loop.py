"""The host's side of training: feed chunks to the device one after another and do everything else while it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax

from jaxrl.algorithm import Metrics, with_replay
from jaxrl.errors import CheckpointError, DivergedError
from jaxrl.train.callbacks import Callback, Callbacks
from jaxrl.train.devices import hosts
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.saver import Saver, Writer
from jaxrl.train.health.divergence import Idle
from jaxrl.train.health.nan_guard import FiniteWatch
from jaxrl.train.health.throughput import Stragglers, Throughput
from jaxrl.train.intervals import ChunkSizer, Clock, Intervals
from jaxrl.train.members import Members
from jaxrl.train.metrics import RowMaker
from jaxrl.train.programs import Programs
from jaxrl.train.signals import StopRequest

__all__ = ["Loop"]


class Loop:
    """One run, from a train state to a later one. The device always has the next chunk queued while the host reads
    the metrics of the last one and calls the callbacks.

    Args:
        programs: The compiled programs.
        intervals: When to log, evaluate and save.
        rows: Makes the rows of metrics.
        members: The members to train.
        say: Shows a sentence to the user.
        callbacks: Notified of phases, rows, evaluations and events.
        folder: The run's folder; None writes nothing.
        keep_checkpoints: How many of the newest checkpoints to keep.
        checkpoint_replay: Whether checkpoints keep the replay buffer, if there is one.
        learns_after: Updates that only fill the replay buffer.
    """

    def __init__(
        self,
        programs: Programs,
        intervals: Intervals,
        rows: RowMaker,
        *,
        members: Members,
        say: Callable[[str], None],
        callbacks: Sequence[Callback] = (),
        folder: RunFolder | None = None,
        keep_checkpoints: int = 3,
        checkpoint_replay: bool = True,
        learns_after: int = 0,
    ) -> None:
        self.programs = programs
        self.intervals = intervals
        self.rows = rows
        self.clock = Clock()
        self.table: list[dict[str, Any]] = []
        """All rows of the run."""
        self.stopped: str | None = None
        """Why training ended early: the name of a signal, `"goal"` or `"callback"`."""
        # The helpers: what saves, what watches the numbers, what watches the time, what listens.
        self.saver = Saver(folder, keep_checkpoints, checkpoint_replay, say, self.tell)
        self.watch = FiniteWatch(
            members, intervals.num_updates, programs.state_shape, self._advice, revives=programs.revives
        )
        self._idle = Idle(learns_after)
        self._say = say
        self._throughput = Throughput(self._tell_of_time)
        self._stragglers = Stragglers(self.tell)
        writer = [Writer(folder, self.tell)] if folder else []
        self._callbacks = Callbacks([*writer, *callbacks], self._throughput)
        # Where the run is.
        self._evaluated: tuple[int, dict[str, Any]] | None = None  # the update, and the summary
        self._chunk_sizer = ChunkSizer(programs.max_chunk)
        self._pending: tuple[int, Metrics] | None = None
        self._chunk_began = 0.0

    def run(self, state: Any) -> Any:
        """Train to the end, or until something stops training; then save the state and return it.

        Raises:
            DivergedError: Every member's losses are NaN or infinite. The last good checkpoint is kept.
        """
        update = self.rows.update
        self._callbacks.phase("training")
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
        return state

    def _next(self, update: int, stop: StopRequest, state: Any) -> int:
        """The number of updates in the next chunk, 0 to stop.

        Process 0 sets the pace; a stop request to any process stops all of them.
        """
        left = self.intervals.until_next_stop(update)
        size = self._chunk_sizer.next(left) if left else 0
        wish = (stop.name or self.stopped or self._callbacks.stop, size, self._stragglers.news())
        wishes = hosts.exchange(wish, after=state)
        self._stragglers.hear([news for _, _, news in wishes])
        self.stopped = next((why for why, _, _ in wishes if why), None)
        return 0 if self.stopped else wishes[0][1]

    def _pause(self, state: Any, update: int) -> None:
        """Evaluate and save if due; both wait for the chunk to end."""
        saves = self.saver.due(self.intervals, update, state)
        if self.intervals.evaluates(update):
            self._read(state)
            self.evaluate(state)
        if saves:
            self._read(state)
            self._save(state, update)

    def _read(self, state: Any) -> None:
        """Wait for the pending chunk's metrics and turn them into rows.

        Raises:
            DivergedError: Every member has diverged; the rows up to that update are written first.
        """
        if self._pending is None:
            return
        n, waits = self._pending[0], not _ready(self._pending[1])
        metrics = jax.device_get(self._pending[1])
        self._pending = None
        before = self.rows.update
        self._throughput.finished(before + n, waits)
        began, ended = self._chunk_began, self.clock.seconds
        self._chunk_began = ended
        self._chunk_sizer.measured(n, ended - began)
        metrics = jax.tree.map(lambda leaf: leaf[:n], metrics)
        if idle := self._idle.sentence(metrics, before + n == self.intervals.num_updates):
            self.tell("idle", idle)
        metrics, kept, sentences, error = self.watch.inspect(metrics, n, before, state)
        for text in sentences:
            self.tell("not_finite", text)
        ended = began + (ended - began) * kept / n
        self._hand_on(self.rows.feed(metrics, began, ended))
        if error is not None:
            self._end_with(error, ended)

    def _end_with(self, error: DivergedError, seconds: float) -> NoReturn:
        """Raise the error, but first write the unfinished row: the latest metrics say the most about the cause."""
        self._hand_on(self.rows.end(seconds))
        raise error

    def _hand_on(self, rows: list[dict[str, Any]]) -> None:
        """Add rows of metrics to the table and pass them to the callbacks."""
        for row in rows:
            self.table.append(row)
            self._callbacks.row(row)

    def _start_clock(self) -> None:
        self.clock.start()
        self._chunk_began = self.clock.seconds
        self._throughput.pause()

    def evaluate(self, state: Any) -> dict[str, Any]:
        """Evaluate `state` with its current parameters and record the summary; the clock is paused meanwhile.

        A state that has just been evaluated is not evaluated again.
        """
        if self._evaluated is not None and self._evaluated[0] == self.rows.update:
            return self._evaluated[1]
        running = self.clock.running
        self.clock.stop()
        self._throughput.pause()
        self._callbacks.phase("evaluating…")
        played = jax.device_get(self.programs.evaluate(state))
        if warning := played.warning():
            self._say(warning)
        summary = hosts.main_says(played.summary())
        self._evaluated = (self.rows.update, summary)
        when = {"timesteps": self.rows.timesteps, "seconds": round(self.clock.seconds, 4)}
        row = {**when, **summary}
        self._callbacks.evaluation(row)
        if self.intervals.updates_to_evaluation or self._has_best():
            self.saver.keep_best(self.rows.update, state, row)
        self._callbacks.phase("training")
        if running:
            self._start_clock()
        return summary

    def _has_best(self) -> bool:
        """True if an earlier part of the run has kept its best state, which a better one is to replace."""
        folder = self.saver.folder
        return bool(hosts.main_says(folder is not None and folder.best.exists()))

    def evaluated_before(self, summary: dict[str, Any]) -> None:
        """Take over the evaluation of the restored state, which the folder has."""
        self._evaluated = (self.rows.update, summary)

    def restore(self, state_shape: Any) -> Any:
        """Restore the newest good checkpoint: the state, the rows, the clock and the files of the folder.

        Raises:
            CheckpointError: There is no good checkpoint.
        """
        assert self.saver.folder is not None
        restored = self.saver.restore(state_shape)
        try:
            self.rows.load(restored.extra["rows"])
            self.clock = Clock(float(restored.extra["seconds"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{self.saver.folder.checkpoints} was changed by hand: {error}.") from error
        self.table = self.saver.folder.metrics.read()
        said = f"Continues after update {restored.update} of {self.intervals.num_updates}."
        whole = jax.tree.structure(restored.state) == jax.tree.structure(state_shape)
        self.tell("resumed", said if whole else f"{said} The replay buffer was not saved, so it begins empty.")
        return restored.state if whole else with_replay(restored.state, self.programs.init())

    def _save(self, state: Any, update: int, last: bool = False) -> None:
        if self.saver.saved(update):
            return
        error = self.watch.divergence.check_params(state)
        if error is not None:
            self._end_with(error, self.clock.seconds)
        self._callbacks.phase("saving…")
        with self._throughput.host("saving checkpoints"):
            self.saver.save(update, state, {"rows": self.rows.save(), "seconds": self.clock.seconds}, last)
        self._callbacks.phase("training")

    def tell(self, kind: str, text: str) -> None:
        """Show the user a sentence and write it to events.jsonl."""
        self._callbacks.event(kind, text, self.rows.update)

    def _tell_of_time(self, kind: str, text: str) -> None:
        self.tell(kind, text)
        self._stragglers.note(kind, text)

    def _advice(self) -> str:
        return (
            f"Try a lower --lr or a lower --max-grad-norm, or see with jaxrl.check_env if the environment returns "
            f"numbers that are not finite.{self.saver.advice}"
        )


def _ready(metrics: Metrics) -> bool:
    """True if the device has finished the chunk that produced these metrics."""
    return all(leaf.is_ready() for leaf in jax.tree.leaves(metrics)[:1])
