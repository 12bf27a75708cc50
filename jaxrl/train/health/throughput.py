"""Watches time: is training slower than before, does the device wait for the host, does JAX compile again?

All times come from a monotonic clock, so clock corrections and daylight saving time do not affect them. Hosts that
train together wait for each other in every update, so all see the same times and none knows which is slow: when
training has become slower, each of them times the same small piece of work by itself, and these times are compared.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.train.devices import hosts

__all__ = ["Change", "SlowDown", "Stragglers", "Throughput", "likely_cause", "machine_load", "slow_host", "small_work"]

SAMPLE_SECONDS = 0.25
"""Chunks are combined until they add up to this time: shorter times are mostly noise."""

WINDOW_SECONDS = 30.0
"""Seconds of training over which the device's waiting time is added up."""

NOTABLE = 1.10
"""The slow-down that is worth a word: how many times as long an update takes."""

NOTABLE_SHARE = {"waiting": 0.10, "compiled": 0.02}
"""The shares of the time in a window that are worth reporting."""

_RECENT, _EARLIER = 40, 400
"""The samples that are compared: the last ones, and those before them, of which there are as many at least."""
_COMPILED = "/jax/core/compile/backend_compile_duration"
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
        self._machine = machine_load()
        self._window = [0.0, 0.0, 0.0]  # seconds: total, device waiting, JAX compiling
        self._work: dict[str, float] = {}  # seconds of host work in the window
        self._compiled = 0  # programs
        self._reported: dict[str, float] = {}  # the last reported share of each kind

    def __enter__(self) -> Throughput:
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        jax.monitoring.unregister_event_duration_listener(self._listen)

    # Calls of the loop

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

    # Reports

    def _guess(self, chunks: int | None = None) -> float:
        """The estimated time at which the device finishes the first `chunks` of its queue, or all of it."""
        done = self._free or 0.0
        typical = statistics.median(self._updates) if self._updates else 0.0
        for updates, handed_over in list(self._queue)[:chunks]:
            done = max(done, handed_over) + updates * typical
        return done

    def _measured(self, update: int, updates: int, seconds: float) -> None:
        """Record the time of a chunk on the device, without any waiting; report a slow-down."""
        self._updates.append(seconds / updates)
        self._sample[0] += updates
        self._sample[1] += seconds
        if self._sample[1] < SAMPLE_SECONDS:
            return
        number, each = self._sample[0], self._sample[1] / self._sample[0]
        self._sample = [0, 0.0]
        change = self._slow.add(each)
        if change is None:
            return
        before, self._machine = self._machine, machine_load()
        since = max(0, update - change.samples * number)
        self._tell(
            "slower",
            f"Since about update {since} an update takes {100 * (change.after / change.before - 1):.0f} % longer: "
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
        """True if this share is worth reporting and clearly larger than the last reported one."""
        if share < max(NOTABLE_SHARE[kind], 1.5 * self._reported.get(kind, 0.0)):
            return False
        self._reported[kind] = share
        return True

    def _listen(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == _COMPILED and self._free is not None:
            self._window[2] += duration_secs
            self._compiled += 1


class Change(NamedTuple):
    """A lasting slow-down."""

    samples: int
    """The samples since it happened, about."""
    before: float
    """The typical time before it."""
    after: float
    """The typical time since."""


class SlowDown:
    """Watches positive times one by one and reports when the last ones take longer than those before them."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=_EARLIER + _RECENT)  # logarithms of seconds

    def add(self, seconds: float) -> Change | None:
        """Add a time. Returns a slow-down, once; the times since then are the new normal.

        The medians of the last and of the earlier times are compared. They have to differ by a tenth, and by more than
        a single time usually differs from its median: in noisy times less means nothing.
        """
        self._samples.append(math.log(max(seconds, 1e-9)))
        if len(self._samples) < 2 * _RECENT:
            return None
        everything = np.array(self._samples)
        earlier, recent = everything[:-_RECENT], everything[-_RECENT:]
        before = np.median(earlier)
        away = np.median(recent) - before
        spread = 1.5 * np.median(np.abs(earlier - before))  # a standard deviation, if the noise is normal
        if abs(away) < max(math.log(NOTABLE), spread):
            return None
        changed = recent[np.sign(away) * (recent - before) > abs(away) / 2]
        self._samples = deque(changed, maxlen=_EARLIER + _RECENT)
        return Change(len(changed), math.exp(before), math.exp(np.median(changed))) if away > 0 else None


class Stragglers:
    """Carries the reports of `Throughput` to process 0, which names who is slow. With one process, it does nothing.

    Args:
        tell: `tell(kind, sentence)`, called on process 0.
        exchange: Shares a fact of each process with all of them, see `hosts.exchange`.
        measure: Returns the seconds that the same work takes on this host, measured several times.
    """

    def __init__(
        self,
        tell: Callable[[str, str], None],
        exchange: Callable[[Any], list[Any]] = hosts.exchange,
        measure: Callable[[], list[float]] | None = None,
    ) -> None:
        self._tell = tell
        self._exchange = exchange
        self._measure = measure or small_work
        self._news: dict[str, str] = {}
        self._machine = machine_load()

    def note(self, kind: str, text: str) -> None:
        """Record something that this process has noticed."""
        self._news[kind] = text

    def news(self) -> dict[str, str]:
        """Everything noted since the last call, to send to the other processes."""
        news, self._news = self._news, {}
        return news

    def hear(self, everyone: list[dict[str, str]]) -> None:
        """Take in the news of all processes; every process calls it with the same list."""
        if len(everyone) == 1:
            return
        for kind in ("waiting", "compiled"):
            saying = [process for process, news in enumerate(everyone) if kind in news]
            if saying and 0 not in saying and hosts.is_main():  # process 0 has already reported its own
                self._tell(kind, f"On process {', '.join(map(str, saying))}: {everyone[saying[0]][kind]}")
        if any("slower" in news for news in everyone):
            self._find_the_slow_one()

    def _find_the_slow_one(self) -> None:
        cause = likely_cause(self._machine, machine_load())
        facts = self._exchange([self._measure(), socket.gethostname(), cause])
        if not hosts.is_main():
            return
        found = slow_host(np.array([times for times, _, _ in facts]))
        text = "The same piece of work takes about as long on every host: none of them is the slow one."
        if found is not None:
            process, ratio = found
            _, name, cause = facts[process]
            text = (
                f"Process {process} on {name} holds up the others: the same piece of work takes "
                f"{100 * (ratio - 1):.0f} % longer there. {cause}"
            )
        self._tell("slower", text)


def slow_host(times: np.ndarray) -> tuple[int, float] | None:
    """The host that takes a tenth longer than the others, and how many times as long; None if there is none.

    Args:
        times: Seconds `[H, K]` that H hosts, at least two, needed for the same work, measured K times.
    """
    typical = np.median(times, axis=1)
    slowest = int(typical.argmax())
    ratio = float(typical[slowest] / np.median(np.delete(typical, slowest)))
    return (slowest, ratio) if ratio >= NOTABLE else None


def small_work(repeats: int = 8) -> list[float]:
    """The seconds that each repetition of fixed matrix products takes on this process's first device."""
    device = jax.local_devices()[0]
    matrix = jax.device_put(np.full((512, 512), 1 / 512, np.float32), device)
    work = jax.jit(lambda m: jax.lax.fori_loop(0, 4, lambda _, x: jnp.dot(x, m), m))
    work(matrix).block_until_ready()  # compiled
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work(matrix).block_until_ready()
        seconds.append(time.perf_counter() - began)
    return seconds


def machine_load() -> dict[str, float]:
    """The state of the machine, as far as the system reports it; Linux reports most.

    `cores` that this process may use, `load` (runnable processes, the mean of the last minute), `ghz` (the clock of the
    fastest core), and since the machine was started `throttled` (how often the processor has slowed itself down because
    of heat) and `swapped` (pages read back from swap space).
    """
    cpus, found = Path("/sys/devices/system/cpu"), {"cores": float(os.cpu_count() or 1)}
    if hasattr(os, "sched_getaffinity"):
        found["cores"] = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, AttributeError):
        found["load"] = os.getloadavg()[0]
    with contextlib.suppress(OSError, ValueError):
        found["ghz"] = max(int(path.read_text()) for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")) / 1e6
    with contextlib.suppress(OSError, ValueError):
        counts = cpus.glob("cpu[0-9]*/thermal_throttle/package_throttle_count")
        found["throttled"] = max(int(path.read_text()) for path in counts)
    with contextlib.suppress(OSError, ValueError):
        found["swapped"] = int(Path("/proc/vmstat").read_text().partition("pswpin ")[2].split("\n")[0])
    return found


def likely_cause(before: dict[str, float], now: dict[str, float]) -> str:
    """The likely cause of a slow-down in a sentence, from `machine_load` before and now; the most certain one first."""
    risen = {name: now[name] - before[name] for name in now if name in before}
    if risen.get("throttled", 0) > 0:
        return "The processor slows itself down because it is too hot."
    if risen.get("swapped", 0) > 1000:
        return "Memory is short: the machine is swapping."
    load = now.get("load", 0.0)
    if load > 1.25 * max(now["cores"], before.get("load", 0.0)):
        was = f", it was {before['load']:.1f}" if "load" in before else ""
        return f"Other programs want the processor: the load is {load:.1f} on {now['cores']:.0f} cores{was}."
    if "ghz" in risen and now["ghz"] < 0.92 * before["ghz"]:
        return f"The processor's clock fell from {before['ghz']:.2f} to {now['ghz']:.2f} GHz."
    return (
        "Nothing else has changed on this machine: the updates themselves have more to do, or the device is shared or "
        "slows itself down."
    )


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
