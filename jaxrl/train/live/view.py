"""The content of a run's live display: only numbers, made from its rows and phases and drawn elsewhere."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

from jaxrl.train.metrics import mean_over_members

__all__ = ["PARTS", "Band", "RunView", "duration", "number"]

PARTS = ("compiling", "training", "evaluating", "saving", "drawing", "starting")
"""The parts of a run's time. A rollout and its optimisation are one compiled program: both count as training, unless
`RunView.rollout` gives their shares."""


_RECENT = 20  # rows from which the speed is taken


@dataclasses.dataclass
class Band:
    """The course of one metric: for every row, the mean, minimum and maximum over the members."""

    mean: list[float | None] = dataclasses.field(default_factory=list)
    least: list[float | None] = dataclasses.field(default_factory=list)
    most: list[float | None] = dataclasses.field(default_factory=list)

    def add(self, value: Any) -> None:
        """Add a row's number, or list of the members' numbers; if none is known, the last values are repeated."""
        numbers = [v for v in (value if isinstance(value, list) else [value]) if v is not None and math.isfinite(v)]
        for values, known in (
            (self.mean, mean_over_members(numbers)),
            (self.least, min(numbers, default=None)),
            (self.most, max(numbers, default=None)),
        ):
            values.append(known if numbers or not values else values[-1])

    def cut(self, length: int) -> None:
        """Forget all but the first `length` rows."""
        for values in (self.mean, self.least, self.most):
            del values[length:]


@dataclasses.dataclass
class RunView:
    """The state of a run as people see it."""

    title: str
    total: int
    """Environment steps of one member at the end, including those before the run."""
    device: str = ""
    """For example `2 x cpu`."""
    first: int = 0
    """Environment steps of one member before this run, which continues from there; its seconds begin at 0."""
    phase: str = "starting"
    """The current phase: one of `PARTS`, or how the run ended."""
    since: float = dataclasses.field(default_factory=time.time)
    """The time at which the phase began, in seconds since 1970."""
    spent: dict[str, float] = dataclasses.field(default_factory=dict)
    """Seconds in each of `PARTS`, not counting the current phase."""
    rollout: float | None = None
    """The share of training time that rollouts take, if measured."""
    memory: dict[str, int] = dataclasses.field(default_factory=dict)
    """Bytes: `host` and, if the device reports them, `device` and `device_limit`."""
    row: dict[str, Any] | None = None
    """The last row of metrics."""
    evaluation: dict[str, Any] | None = None
    """The last evaluation."""
    bands: dict[str, Band] = dataclasses.field(default_factory=dict)
    """By name: win_rate, return_mean, length_mean, each kind of agent (`returns/wolf` …), loss (`losses/policy` …)."""
    timesteps: list[int] = dataclasses.field(default_factory=list)
    """The timesteps of each row, as long as the bands."""
    message: str = ""
    """The last message."""
    _recent: list[tuple[float, int]] = dataclasses.field(default_factory=list)  # seconds and timesteps of rows

    def enter(self, phase: str, now: float | None = None) -> None:
        """Begin another phase."""
        now = time.time() if now is None else now
        self.spent = self.split(now)
        self.phase, self.since = phase, now

    def split(self, now: float | None = None) -> dict[str, float]:
        """Seconds in each part so far."""
        spent = dict(self.spent)
        if self.phase in PARTS:
            now = time.time() if now is None else now
            spent[self.phase] = spent.get(self.phase, 0.0) + max(now - self.since, 0.0)
        return spent

    def add_row(self, row: dict[str, Any]) -> None:
        """Add a row of metrics. After going back to a checkpoint, it replaces the rows at or after its timesteps."""
        if self.timesteps and row["timesteps"] <= self.timesteps[-1]:
            kept = sum(t < row["timesteps"] for t in self.timesteps)
            del self.timesteps[kept:]
            for band in self.bands.values():
                band.cut(kept)
            self._recent = []
        self.row = row
        self.timesteps.append(row["timesteps"])
        shown = {name: row[name] for name in ("win_rate", "return_mean", "length_mean") if name in row}
        for group in ("returns", "losses"):
            shown |= {f"{group}/{name}": value for name, value in row.get(group, {}).items()}
        for name, value in shown.items():
            self.bands.setdefault(name, Band()).add(value)
        self._recent = [*self._recent[-(_RECENT - 1) :], (row["seconds"], row["timesteps"])]

    @property
    def members(self) -> int:
        """M, according to the last row."""
        return len(self.row["episodes"]) if self.row and isinstance(self.row["episodes"], list) else 1

    @property
    def done(self) -> float:
        """The completed share of the run's own steps, 0 … 1."""
        return min(max(self._now - self.first, 0) / max(self.total - self.first, 1), 1.0)

    @property
    def speed(self) -> float:
        """Environment steps per second of all members, over the last rows."""
        return self._own_speed * self.members

    @property
    def left(self) -> float:
        """The remaining seconds of training."""
        return max(self.total - self._now, 0) / self._own_speed if self._own_speed else math.inf

    @property
    def _now(self) -> int:
        return self.timesteps[-1] if self.timesteps else self.first

    @property
    def _own_speed(self) -> float:
        points = [(0.0, self.first), *self._recent][-_RECENT:]
        (then, before), (now, after) = points[0], points[-1]
        return (after - before) / max(now - then, 1e-9)


def duration(seconds: float) -> str:
    """A time as text, for example `1:05` or `2:46:40`."""
    if not math.isfinite(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def number(value: float | None, digits: int = 2) -> str:
    """A number as text with `digits` decimals; a dash for None, NaN and infinity."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def returns_text(row: dict[str, Any]) -> str:
    """The mean return in a row or an evaluation, followed in brackets by each kind of agent's, if there are several."""
    kinds = [f"{kind} {number(mean_over_members(value))}" for kind, value in row.get("returns", {}).items()]
    return number(mean_over_members(row["return_mean"])) + (f" ({', '.join(kinds)})" if kinds else "")
