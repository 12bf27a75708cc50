"""Rows of metrics: the metrics of the updates in a log interval, reduced to sums and means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jaxrl.algorithm import Metrics

__all__ = [
    "RowMaker",
    "columns",
    "flat_row",
    "mean_over_members",
    "metric_of",
    "own_metrics",
    "rank",
    "score",
    "unread",
]

_MEANS = {"return_mean": "return_sum", "length_mean": "length_sum", "win_rate": "won_sum"}
_READ = {"episodes", "losses", "skipped", "not_finite", "return_sums", "info_sums", "levels", *_MEANS.values()}
"""The metrics that become part of rows; the NaN guard adds `skipped` and `not_finite`."""


class RowMaker:
    """Turns the metrics of consecutive updates into rows: one every `log_every` updates and one at the end.

    The rows depend only on the updates, not on how these were grouped into chunks; the times are the exception. A mean
    over episodes is that of the episodes that ended in the interval; if none did, the last mean is repeated. It is None
    until the first episode has ended.

    Args:
        log_every: Updates per row.
        total: Updates in the run.
        steps_per_update: Environment steps of one member per update.
        members: M, the runs side by side; with more than one, sums and means in rows are lists.
    """

    def __init__(self, log_every: int, total: int, steps_per_update: int, members: int = 1) -> None:
        self.update = 0
        self._log_every = log_every
        self._total = total
        self._steps_per_update = steps_per_update
        self._members = members
        self._sums: dict[str, np.ndarray] = {}
        self._updates = 0  # in the sums
        self._begin = 0.0  # seconds of training when the first of them began
        self._known: dict[str, np.ndarray] = {}  # the last mean over episodes, by the name of its sum; NaN before one

    @property
    def timesteps(self) -> int:
        """Environment steps of one member so far."""
        return self.update * self._steps_per_update

    def feed(self, metrics: Metrics, begin: float, end: float) -> list[dict[str, Any]]:
        """Take in the n updates of a chunk and return the rows they complete.

        Args:
            metrics: Returned by `Algorithm.update`, leaves `[n]`, or `[n, M]` with members.
            begin: Seconds of training before the chunk.
            end: Seconds of training after it; the times of rows in between are interpolated.
        """
        flat = flatten(metrics)
        length = len(next(iter(flat.values())))
        rows, start = [], 0
        while start < length:
            to_boundary = min(self._log_every - self.update % self._log_every, self._total - self.update)
            stop = min(start + to_boundary, length)
            for name, values in flat.items():
                self._sums[name] = self._sums.get(name, 0.0) + values[start:stop].sum(0)
            self._updates += stop - start
            self.update += stop - start
            if self.update % self._log_every == 0 or self.update == self._total:
                rows.append(self._row(begin + (end - begin) * stop / length))
            start = stop
        return rows

    def end(self, seconds: float) -> list[dict[str, Any]]:
        """The unfinished row, if there is one, closed after `seconds` of training."""
        return [self._row(seconds)] if self._updates else []

    def save(self) -> dict[str, Any]:
        """The JSON-able state that a checkpoint needs to continue in the middle of a row."""
        sums, known = ({k: v.tolist() for k, v in each.items()} for each in (self._sums, self._known))
        return {"update": self.update, "sums": sums, "known": known, "updates": self._updates, "begin": self._begin}

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` returned.

        Raises:
            ValueError: It is something else.
        """
        try:
            self.update, self._updates, self._begin = int(saved["update"]), int(saved["updates"]), float(saved["begin"])
            self._sums, self._known = (
                {k: np.asarray(v, float) for k, v in saved[p].items()} for p in ("sums", "known")
            )
        except (AttributeError, KeyError, TypeError, OverflowError) as error:
            raise ValueError("it does not say where its rows end") from error
        if {v.shape for v in [*self._sums.values(), *self._known.values()]} - {(self._members,) * (self._members > 1)}:
            raise ValueError("its rows have another number of members")

    def _row(self, seconds: float) -> dict[str, Any]:
        # Time and episodes.
        sums, updates = self._sums, self._updates
        steps = updates * self._steps_per_update * self._members
        row: dict[str, Any] = {
            "timesteps": self.timesteps,
            "seconds": round(seconds, 4),
            "steps_per_second": round(steps / max(seconds - self._begin, 1e-9), 1),
            "episodes": sums["episodes"].astype(int).tolist(),
        }
        # Means over episodes: of all agents, of each kind, of the user's own numbers.
        row |= {name: self._mean(source) for name, source in _MEANS.items() if source in sums}
        kinds, own = ([name for name in sums if name.startswith(f"{each}_sums/")] for each in ("return", "info"))
        if kinds:
            row["returns"] = {name.partition("/")[2]: self._mean(name) for name in kinds}
        row |= {name.replace("info_sums", "info", 1): self._mean(name) for name in own}
        # What a curriculum says of its levels is a mean over the updates.
        if levels := {name[7:]: _plain(s / updates) for name, s in sums.items() if name.startswith("levels/")}:
            row["levels"] = levels
        # Losses are means over the updates that were applied.
        applied: Any = updates
        if "skipped" in sums:  # only with on_nan="skip"
            row["skipped"] = sums["skipped"].astype(int).tolist()
            applied = updates - sums["skipped"]
        with np.errstate(invalid="ignore"):
            row["losses"] = {name[7:]: _plain(s / applied) for name, s in sums.items() if name.startswith("losses/")}
        self._sums, self._updates, self._begin = {}, 0, seconds
        return row

    def _mean(self, name: str) -> Any:
        """The mean over the episodes that ended, from their sum; the last one for members in which none did."""
        episodes, total = self._sums["episodes"], self._sums[name]
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(episodes > 0, total / episodes, self._known.get(name, np.nan))
        self._known[name] = mean
        return _plain(mean)


def unread(metrics: Metrics) -> list[str]:
    """The names of an update's metrics that no row holds."""
    return [name for name in metrics if name not in _READ]


def flatten(metrics: Metrics) -> dict[str, np.ndarray]:
    """Nested metrics as float64 arrays under names such as `"losses/policy"`."""
    flat: dict[str, np.ndarray] = {}
    for name, value in metrics.items():
        if isinstance(value, dict):
            flat.update({f"{name}/{inner}": leaf for inner, leaf in flatten(value).items()})
        else:
            flat[name] = np.asarray(value, np.float64)
    return flat


def flat_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row or an evaluation with `{"losses": {"policy": …}}` as `{"losses/policy": …}`."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= {f"{name}/{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def own_metrics(known: Iterable[str]) -> list[str]:
    """The names among these that `log_info` has made, such as `info/distance`, sorted."""
    return sorted(name for name in known if name.startswith("info/"))


def columns(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Rows as arrays `[R]` (`[R, M]` where rows hold lists) under names such as `"losses/policy"`.

    Values that are null or missing in some rows become NaN: a run that is continued with another `on_nan` has rows of
    both kinds.
    """
    flat = [flat_row(row) for row in rows]
    table: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(name for row in flat for name in row):
        values = [row.get(name) for row in flat]
        nothing = next(([None] * len(value) for value in values if isinstance(value, list)), None)
        table[name] = np.array([nothing if value is None else value for value in values], np.float64)
    return table


def metric_of(known: Mapping[str, Any]) -> str:
    """The metric to compare by: the win rate if the environment has one, otherwise the return."""
    return "win_rate" if "win_rate" in known else "return_mean"


def score(evaluation: Mapping[str, Any]) -> float:
    """The score of an evaluation: the win rate if there is one, otherwise the mean return, averaged over seeds.

    A score that is not known for every seed is worse than any other.
    """
    mean = np.mean(np.array(evaluation[metric_of(evaluation)], np.float64))
    return float(mean) if np.isfinite(mean) else -math.inf


def rank(evaluation: Mapping[str, Any]) -> tuple[float, float]:
    """The order of evaluations, higher is better: the score and, where win rates are equal, the mean return.

    Before the first win, and where nearly all battles are won, win rates alone say nothing.
    """
    return score(evaluation), score({"return_mean": evaluation["return_mean"]})


def mean_over_members(value: Any) -> float | None:
    """The mean of a row's number or list, ignoring None; None if nothing is left."""
    numbers = [v for v in (value if isinstance(value, list) else [value]) if v is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _plain(value: Any) -> Any:
    """A number or a list of numbers, with None for NaN and infinity, which JSON lacks."""
    value = np.asarray(value)
    if value.ndim:
        return [_plain(v) for v in value]
    return float(value) if np.isfinite(value) else None
