"""Find a lasting slow-down in noisy times, and the slow one among several hosts. Plain statistics, no devices."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

__all__ = ["Change", "SlowDown", "slow_host"]

NOTABLE = math.log(1.10)
"""The smallest change worth reporting, in the logarithm of time: 10 %."""

_ALARM = 18.0
"""The log-likelihood ratio at which a change counts as real. If the noise were normal and perfectly known, two false
alarms would be e^18 samples, tens of millions, apart (Lorden 1971); the margin is there because it is not."""

_LARGEST_STEP = _ALARM / 8
"""The most that one sample can add to the evidence, however large the sample is."""

_LASTING = 16
"""The samples for which a change has to last; fewer would not reveal its size either."""


_MEMORY = 4000
"""The most samples to learn the noise from."""


class Change(NamedTuple):
    """A lasting change of speed."""

    samples: int
    """How long ago it happened, in samples."""
    before: float
    """The typical time before the change."""
    after: float
    """The typical time since."""

    @property
    def ratio(self) -> float:
        """The new time over the old one: 1.2 for 20 % slower."""
        return self.after / self.before


class SlowDown:
    """Watches positive times one by one and detects when they have become 10 % longer, or shorter, for good.

    A cumulative sum (CUSUM, Page 1954) in each direction compares the logarithms of the times with their median. The
    number of samples that the median needs depends on their noise, so a noisy series is watched later, not wrongly.
    """

    def __init__(self) -> None:
        self._learn([])

    def _learn(self, known: list[float]) -> None:
        self._baseline = known
        self._level: tuple[float, float] | None = None  # median and deviation, once they are certain enough
        self._recent: list[float] = []
        self._sums = np.zeros(2)  # evidence for slower, for faster
        self._since = np.zeros(2, int)  # index in `_recent` at which it began

    def add(self, seconds: float) -> Change | None:
        """Add a time. Returns a change once there is enough evidence; the times since then are the new baseline."""
        x = math.log(max(seconds, 1e-9))
        if self._level is None:
            self._baseline = [*self._baseline[-_MEMORY:], x]
            self._level = _level(self._baseline)
            return None
        if not self._sums.any():
            self._recent, self._since = [], np.zeros(2, int)
        self._recent.append(x)
        median, deviation = self._level
        # Log-likelihood ratio of "10 % more" against "as before", for normal noise.
        away = np.array([x - median, median - x])
        step = NOTABLE / deviation**2 * (away - NOTABLE / 2)
        self._sums += np.minimum(step, _LARGEST_STEP)
        self._since[self._sums <= 0] = len(self._recent)
        self._sums = np.maximum(self._sums, 0.0)
        direction = int(self._sums.argmax())
        if self._sums[direction] < _ALARM or len(self._recent) - self._since[direction] < _LASTING:
            return None
        return self._judge(direction, median)

    def _judge(self, direction: int, median: float) -> Change | None:
        """The change that the evidence points to, if it is large enough and lasting; else None."""
        latest = self._recent[self._since[direction] :]
        after = float(np.median(latest))
        if abs(after - median) < 0.8 * NOTABLE:  # certain, but small: wait for more
            self._sums[direction] = 0.0
            self._since[direction] = len(self._recent)
            return None
        self._learn(list(latest))
        self._level = _level(self._baseline)
        return Change(len(latest), math.exp(median), math.exp(after))


def _level(samples: list[float]) -> tuple[float, float] | None:
    """Median and deviation of the noise; None while the median is too uncertain to detect a notable change.

    The deviation is robust, and larger for noise that comes in waves, as on a shared machine: with a correlation c
    between neighbours, sums of samples vary sqrt((1 + c) / (1 - c)) times as much.
    """
    if len(samples) < 20:
        return None
    median = float(np.median(samples))
    rest = np.array(samples) - median
    deviation = max(1.4826 * float(np.median(np.abs(rest))), 0.2 * NOTABLE)
    rest = np.clip(rest, -3 * deviation, 3 * deviation)
    c = float(np.clip(np.mean(rest[1:] * rest[:-1]) / max(np.mean(rest**2), 1e-12) + 1 / np.sqrt(len(rest)), 0.0, 0.9))
    deviation *= math.sqrt((1 + c) / (1 - c))
    error = 1.2533 * deviation / math.sqrt(len(samples))
    return None if error > NOTABLE / 10 else (median, deviation)


def slow_host(times: np.ndarray) -> tuple[int, float] | None:
    """The host that holds up the others, and how many times as long it takes; None if there is none.

    Hosts that train together wait for each other in every update, so `times` must not include that waiting: give the
    time that each host needed until it was ready for the others.

    Args:
        times: Seconds `[H, K]` of H hosts in the same K intervals.

    Raises:
        ValueError: `times` has another shape, or fewer than two hosts.
    """
    if np.ndim(times) != 2 or np.shape(times)[0] < 2 or np.shape(times)[1] < 1:
        raise ValueError(
            f"times must have the shape [hosts, intervals] with at least two hosts, got {np.shape(times)}."
        )
    logs = np.log(np.maximum(np.asarray(times, np.float64), 1e-9))
    slowest = int(np.median(logs, axis=1).argmax())
    behind = logs[slowest] - np.median(np.delete(logs, slowest, axis=0), axis=0)  # [K]
    lasting = float(np.median(behind))
    # A tenth, most of the time: a host is not slow because of one bad interval.
    if lasting < NOTABLE or (behind > 0.5 * NOTABLE).mean() < 0.75:
        return None
    return slowest, math.exp(lasting)
