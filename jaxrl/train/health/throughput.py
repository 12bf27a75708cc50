"""Watches time: is training slower than before, does the device wait for the host, does JAX compile again?

All times come from a monotonic clock, so clock corrections and daylight saving time do not affect them.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType

import jax.monitoring

from jaxrl.train.health.change_point import SlowDown
from jaxrl.train.health.machine_load import MachineLoad, likely_cause

__all__ = ["Throughput"]

_COMPILED = "/jax/core/compile/backend_compile_duration"

SAMPLE_SECONDS = 0.25
"""Chunks are combined until they add up to this time: shorter times are mostly noise."""

WINDOW_SECONDS = 30.0
"""Seconds of training over which the device's waiting time is added up."""

NOTABLE_SHARE = {"waiting": 0.10, "compiled": 0.02}
"""The shares of that time that are worth reporting."""


_CURES = {
    "saving checkpoints": " Save less often: --checkpoint-every-minutes, --checkpoint-every-updates.",
    "writing and showing metrics": " Log more rarely: --log-every.",
    "callbacks": " Let callbacks do less, or log more rarely: --log-every.",
}


class Throughput:
    """Follows the chunks of one run and reports notable events by `tell(kind, sentence)`; a context manager.

    Args:
        tell: `kind` is `"slower"`, `"waiting"` or `"compiled"`.
        now: Returns the seconds of a monotonic clock.
    """

    def __init__(self, tell: Callable[[str, str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._now = now
        self._queue: deque[tuple[int, float]] = deque()  # updates of a chunk, when it was dispatched
        self._free: float | None = None  # when the device finished everything before the queue
        self._exact = False  # whether that was measured, not estimated
        self._slow = SlowDown()
        self._sample = [0, 0.0]  # updates, seconds
        self._updates: deque[float] = deque(maxlen=50)  # recent seconds per update
        self._machine: MachineLoad | None = None
        self._window = [0.0, 0.0, 0.0]  # seconds: total, device waiting, JAX compiling
        self._work: dict[str, float] = {}  # seconds of host work in the window
        self._compiled = 0  # programs
        self._told: dict[str, float] = {}  # the last reported share of each kind

    def __enter__(self) -> Throughput:
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        jax.monitoring.unregister_event_duration_listener(self._listen)

    # What the loop reports

    def dispatch(self, updates: int, idle: bool) -> None:
        """A chunk is about to be dispatched; `idle` means that the device has nothing left to do."""
        now = self._now()
        if idle and self._free is not None:
            done = min(now, self._guess())
            self._window[1] += now - done
        self._queue.append((updates, now))

    def finished(self, update: int, waited: bool) -> None:
        """The oldest chunk has ended, after `update` updates in all; `waited` if the host had to wait for it."""
        now = self._now()
        updates, handed_over = self._queue[0]
        done = now if waited else min(now, self._guess(1))
        self._queue.popleft()
        began = handed_over if self._free is None else max(handed_over, self._free)
        if waited and self._exact:
            self._measured(update, updates, done - began)
        if self._free is not None:
            self._window[0] += done - self._free
        self._free, self._exact = done, waited
        if self._window[0] >= WINDOW_SECONDS:
            self._look_back()

    def pause(self) -> None:
        """Training pauses here; the next chunk starts a new measurement."""
        self._queue.clear()
        self._free = None

    @contextlib.contextmanager
    def host(self, work: str) -> Iterator[None]:
        """Measure the host's work in this context, for the report if the device has to wait for it."""
        began = self._now()
        try:
            yield
        finally:
            self._work[work] = self._work.get(work, 0.0) + self._now() - began

    # What follows from it

    def _guess(self, chunks: int | None = None) -> float:
        """The estimated time at which the device finishes the first `chunks` of its queue, or all of it."""
        done = self._free or 0.0
        typical = statistics.median(self._updates) if self._updates else 0.0
        for updates, handed_over in list(self._queue)[:chunks]:
            done = max(done, handed_over) + updates * typical
        return done

    def _measured(self, update: int, updates: int, seconds: float) -> None:
        """Record the time of a chunk on the device, without any waiting."""
        self._updates.append(seconds / updates)
        self._sample[0] += updates
        self._sample[1] += seconds
        if self._sample[1] < SAMPLE_SECONDS:
            return
        number, each = self._sample[0], self._sample[1] / self._sample[0]
        self._sample = [0, 0.0]
        change = self._slow.add(each)
        if self._machine is None:
            self._machine = MachineLoad.now()
        if change is None:
            return
        before, self._machine = self._machine, MachineLoad.now()
        if change.ratio > 1:
            since = max(0, update - change.samples * number)
            self._tell(
                "slower",
                f"Since about update {since} an update takes {100 * (change.ratio - 1):.0f} % longer: "
                f"{_time(change.after)} instead of {_time(change.before)}. {likely_cause(before, self._machine)}",
            )

    def _look_back(self) -> None:
        """Report if too much of the last window was spent on waiting or compiling, and start a new one."""
        everything, waiting, compiling = self._window
        if self._notable("waiting", waiting / everything):
            most = sorted(self._work.items(), key=lambda item: -item[1])
            parts = ", ".join(f"{work} {seconds:.1f} s" for work, seconds in most if seconds > 0.1 * waiting)
            cause = "Nothing that is measured here kept it busy; other programs, or other hosts of this run, may have."
            if parts:
                cause = f"The host was busy with: {parts}.{_CURES.get(most[0][0], '')}"
            self._tell(
                "waiting",
                f"The device waited for the host in {100 * waiting / everything:.0f} % of the last {everything:.0f} s. "
                f"{cause}",
            )
        if self._notable("compiled", compiling / everything):
            self._tell(
                "compiled",
                f"JAX compiled {self._compiled} programs during the last {everything:.0f} s of training, which took "
                f"{compiling:.1f} s. Training is compiled beforehand, so look at what is called from it (callbacks); "
                f"JAX_LOG_COMPILES=1 names the programs.",
            )
        self._window, self._work, self._compiled = [0.0, 0.0, 0.0], {}, 0

    def _notable(self, kind: str, share: float) -> bool:
        """Whether this share is worth reporting and clearly larger than the last reported one."""
        told = self._told.get(kind, 0.0)
        if share < max(NOTABLE_SHARE[kind], 1.5 * told):
            return False
        self._told[kind] = share
        return True

    def _listen(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == _COMPILED and self._free is not None:
            self._window[2] += duration_secs
            self._compiled += 1


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
