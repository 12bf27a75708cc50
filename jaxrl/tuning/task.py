"""What a search method is given, and what it gives back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxrl.train.fit import fit
from jaxrl.train.members import traced_fields
from jaxrl.train.run import Result
from jaxrl.tuning.member_groups import Row, check_groups, curve_means, make_groups, metric_of, train_groups
from jaxrl.tuning.search_space import Choice, Point, Range, distinct, draws, effective, read_space

__all__ = ["Found", "Incumbent", "Method", "StoppedError", "Task", "Trial", "best_so_far", "member_rows", "trial_of"]


class StoppedError(Exception):
    """A signal ended training; its name is the message. The same search goes on from there."""


class Trial(NamedTuple):
    """A point that was tried."""

    point: Point
    scores: list[float | None]
    """The final greedy evaluations, win rate or mean return, a member each; None for one that has diverged."""
    curve_mean: float | None
    """The same while training, over all of it: what decides between equal scores. None where no episode has ended."""
    timesteps: int
    """Environment steps of each member."""

    @property
    def score(self) -> float:
        """The mean; minus infinity if a member has diverged."""
        known = [score for score in self.scores if score is not None]
        return sum(known) / len(known) if len(known) == len(self.scores) else -math.inf

    @property
    def rank(self) -> tuple[float, float]:
        """The higher, the better."""
        return self.score, -math.inf if self.curve_mean is None else self.curve_mean


class Incumbent(NamedTuple):
    """The best point at some time."""

    timesteps: int
    """Environment steps spent by the whole search until then."""
    score: float
    point: Point


class Found(NamedTuple):
    """What a method has found."""

    trials: list[Trial]
    incumbents: list[Incumbent]
    """In the order of time."""
    best: Point
    lineage: list[Point] | None = None
    """Where hyperparameters change while training: those of each generation, of which `best` is the last."""


class Method(Protocol):
    """A way to search. It is a frozen dataclass of its options."""

    def check(self, task: Task) -> None:
        """Raise ValueError if it cannot do what is asked."""
        ...

    def __call__(self, task: Task) -> Found:
        """Search.

        Raises:
            StoppedError: A signal ended training.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Task:
    """What to search, and with what."""

    algorithm: ModuleType
    config: Any
    space: dict[str, Any]
    """As `search` was given it."""
    budget: int
    """The environment steps that the search may spend, in whole runs with every tuning seed."""
    seeds: list[int]
    """Tuning seeds."""
    folder: Path | None
    """For run folders."""
    max_members: int | None
    options: dict[str, Any]
    """For `fit`: `quiet`, intervals …"""

    @property
    def dimensions(self) -> dict[str, Range | Choice]:
        """The space, read."""
        return read_space(self.config, self.space)

    def draws(self, count: int) -> list[Point]:
        """Points drawn from the space."""
        return draws(self.config, self.space, count)

    def members(self, tried: Sequence[Point]) -> list[Point]:
        """Each point with every tuning seed."""
        return [{"seed": seed, **point} for point in tried for seed in self.seeds]

    def check(self, tried: Sequence[Point]) -> None:
        """Raise what `train` would, before anything is written."""
        check_groups(make_groups(self.config, tried, self.seeds, self.max_members, None), self.options)

    def only_traced(self, method: str, members: int) -> None:
        """Raise unless so many members can be trained side by side in one program."""
        fixed = sorted(set(self.space) - set(traced_fields(self.config)))
        if fixed:
            raise ValueError(
                f"{method} needs all members in one program, but each value of {', '.join(fixed)} needs its own; "
                f"search those with random, grid or optuna."
            )
        if self.max_members is not None and members > self.max_members:
            raise ValueError(
                f"{method} trains {members} members side by side, more than max_members={self.max_members}; lower "
                f"the budget or the number of tuning seeds."
            )
        self.check([])

    def train(self, tried: Sequence[Point], name: str = "") -> list[Trial]:
        """Train points to the end with every tuning seed.

        Args:
            tried: The points; one that occurs twice is trained once.
            name: Of a folder for them.
        """
        tried = [effective(self.config, point) for point in tried]
        path = None if self.folder is None else self.folder / name
        groups = make_groups(self.config, distinct(tried), self.seeds, self.max_members, path)
        options = {**self.options, "notes": self.notes()}
        table, stopped = train_groups(self.algorithm, groups, list(self.space), options)
        if stopped:
            raise StoppedError(stopped)
        rows: dict[str, list[Row]] = {}
        for row in table:
            rows.setdefault(repr({name: row[name] for name in self.space}), []).append(row)
        steps = self.config.num_updates * self.config.steps_per_update
        return [trial_of(point, rows[repr(point)], steps) for point in tried]

    def fit(
        self, algo: Any, members: Sequence[Point], name: str, notes: Mapping[str, Any] | None = None, **options: Any
    ) -> Result:
        """`fit` for a population, in a folder of its own or without one.

        Args:
            algo: The algorithm.
            members: Who is trained.
            name: Of the folder. What it holds of this very population goes on.
            notes: For run.json, besides those of every run of the search.
            **options: Other ones of `fit`.

        Raises:
            StoppedError: A signal ended training.
            DivergedError: No member is left.
        """
        path = None if self.folder is None else self.folder / name
        shared: dict[str, Any] = {"resume": "auto", "pictures": False, "notes": {**self.notes(), **(notes or {})}}
        result = fit(algo, self.config, path, members=members, **{**self.options, **shared, **options})
        if result.stopped:
            raise StoppedError(result.stopped)
        return result

    def trials(self, tried: Sequence[Point], result: Result, updates: int) -> list[Trial]:
        """What `fit` says of points that were trained for so many updates, as `members` orders them."""
        steps, seeds = updates * self.config.steps_per_update, len(self.seeds)
        rows = member_rows(result, np.isin(np.arange(len(tried) * seeds), result.diverged))
        return [trial_of(point, rows[i * seeds : (i + 1) * seeds], steps) for i, point in enumerate(tried)]

    def notes(self) -> dict[str, Any]:
        """What run.json says of a run that a search has made to choose by."""
        return {"tuning_seeds": self.seeds}


def member_rows(result: Result, diverged: np.ndarray) -> list[Row]:
    """What `fit` says of its members, for `trial_of`.

    Args:
        result: Of `fit`.
        diverged: bool `[M]`, whose score is of no use.
    """
    evaluation = result.evaluation or {}
    metric = metric_of(evaluation)
    scores = np.where(diverged, np.nan, np.array(evaluation[metric], np.float64))
    return [
        {metric: float(score) if np.isfinite(score) else None, "curve_mean": mean}
        for score, mean in zip(scores, curve_means(result.metrics, len(diverged)), strict=True)
    ]


def trial_of(point: Point, rows: Sequence[Row], steps: int) -> Trial:
    """What its members' rows of a table say of a point.

    Args:
        point: What was tried.
        rows: Of each member its score and `curve_mean`.
        steps: Environment steps of each member.
    """
    curves = [row["curve_mean"] for row in rows if row["curve_mean"] is not None]
    scores = [row.get(metric_of(row)) for row in rows]
    return Trial(point, scores, sum(curves) / len(curves) if curves else None, steps)


def best_so_far(trials: Sequence[Trial]) -> list[Incumbent]:
    """The incumbents of trials that were run one after the other, or side by side and counted in their order."""
    found: list[Incumbent] = []
    spent = 0
    rank = (-math.inf, -math.inf)
    for trial in trials:
        spent += trial.timesteps * len(trial.scores)
        if math.isfinite(trial.score) and trial.rank > rank:
            rank = trial.rank
            found.append(Incumbent(spent, trial.score, trial.point))
    return found
