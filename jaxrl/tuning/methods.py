"""The task and the result of a search method, and the simple methods: random search, grid, successive halving."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxrl.errors import DivergedError
from jaxrl.train.fit import fit
from jaxrl.train.members import member_of, traced_fields
from jaxrl.train.metrics import metric_of
from jaxrl.train.result import Result
from jaxrl.train.run import SearchRun, Segment
from jaxrl.tuning.member_groups import MemberGroup, Row, check_groups, curve_means, make_groups, train_groups
from jaxrl.tuning.search_space import Choice, Point, Range, distinct, draws, effective, grid, read_space

__all__ = [
    "Found",
    "Grid",
    "Halving",
    "Incumbent",
    "Method",
    "Random",
    "StoppedError",
    "Task",
    "Trial",
    "best_so_far",
    "member_rows",
    "trial_of",
]


class StoppedError(Exception):
    """A signal ended training; its name is the message. The same search can continue from there."""


class Trial(NamedTuple):
    """A point that was tried, with its scores."""

    point: Point
    scores: list[float | None]
    """The final greedy evaluation (win rate or mean return) of each member; None for a diverged member."""
    curve_mean: float | None
    """The same metric averaged over all of training, which breaks ties between scores. None if no episode ended."""
    timesteps: int
    """Environment steps of each member."""

    @property
    def score(self) -> float:
        """The mean of `scores`; minus infinity if a member diverged."""
        known = [score for score in self.scores if score is not None]
        return sum(known) / len(known) if len(known) == len(self.scores) else -math.inf

    @property
    def rank(self) -> tuple[float, float]:
        """The key to sort trials by; higher is better."""
        return self.score, -math.inf if self.curve_mean is None else self.curve_mean


class Incumbent(NamedTuple):
    """The best point at some moment of a search."""

    timesteps: int
    """Environment steps spent by the whole search until then."""
    score: float
    point: Point


class Found(NamedTuple):
    """The result of a search method."""

    trials: list[Trial]
    incumbents: list[Incumbent]
    """In chronological order."""
    best: Point
    lineage: list[Point] | None = None
    """Hyperparameters of each generation, if they change during training; the last ones are `best`."""


class Method(Protocol):
    """A search method: a frozen dataclass of its options."""

    def check(self, task: Task) -> None:
        """Raise ValueError if the method cannot handle the task."""
        ...

    def __call__(self, task: Task) -> Found:
        """Run the search.

        Raises:
            StoppedError: A signal ended training.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Task:
    """The space to search, and the means for it."""

    algorithm: ModuleType
    config: Any
    space: dict[str, Any]
    """The space in the form passed to `search`."""
    budget: int
    """The environment steps that the search may spend, in full runs with every tuning seed."""
    seeds: list[int]
    """The tuning seeds."""
    folder: Path | None
    """The folder for run folders."""
    max_members: int | None
    options: dict[str, Any]
    """Options for `fit`: `quiet`, intervals …"""

    @property
    def dimensions(self) -> dict[str, Range | Choice]:
        """The parsed space."""
        return read_space(self.config, self.space)

    def draws(self, count: int) -> list[Point]:
        """`count` points drawn from the space."""
        return draws(self.config, self.space, count)

    def tell(self, tried: Sequence[Point], paid: int) -> None:
        """Warn if the space has fewer points than the `paid` ones that the budget pays for."""
        if len(tried) < paid and not self.options["quiet"]:
            print(
                f"The space has {len(tried)} point{'s' * (len(tried) > 1)}, and a budget of {self.budget} pays for "
                f"{paid}: each is tried once, and the rest of the budget is not spent."
            )

    def members(self, tried: Sequence[Point]) -> list[Point]:
        """Each point combined with every tuning seed."""
        return [{"seed": seed, **point} for point in tried for seed in self.seeds]

    def check(self, tried: Sequence[Point]) -> None:
        """Raise the errors of `train` before anything is written."""
        check_groups(make_groups(self.config, tried, self.seeds, self.max_members, None), self.options)

    def only_traced(self, method: str, members: int) -> None:
        """Raise ValueError unless one program can train that many members side by side, or for what `check` refuses."""
        fixed = sorted(set(self.space) - set(traced_fields(self.config)))
        if fixed:
            raise ValueError(
                f"{method} needs all members in one program, but each value of {', '.join(fixed)} needs its own; "
                f"search those with random or grid."
            )
        if self.max_members is not None and members > self.max_members:
            raise ValueError(
                f"{method} trains {members} members side by side, more than max_members={self.max_members}; lower "
                f"the budget or the number of tuning seeds."
            )
        check_groups([MemberGroup(self.config, [{}] * members, None)], self.options)

    def train(self, tried: Sequence[Point], name: str = "") -> list[Trial]:
        """Train points to the end with every tuning seed.

        Args:
            tried: The points; repeated points are trained once.
            name: The name of a folder for them.
        """
        tried = [effective(self.config, point) for point in tried]
        path = None if self.folder is None else self.folder / name
        groups = make_groups(self.config, distinct(tried), self.seeds, self.max_members, path)
        options = {**self.options, "search": SearchRun(notes=self.notes())}
        table, stopped = train_groups(self.algorithm, groups, list(self.space), options)
        if stopped:
            raise StoppedError(stopped)
        rows: dict[str, list[Row]] = {}
        for row in table:
            rows.setdefault(repr({name: row[name] for name in self.space}), []).append(row)
        steps = self.config.num_updates * self.config.steps_per_update
        return [trial_of(point, rows[repr(point)], steps) for point in tried]

    def fit(self, algo: Any, members: Sequence[Point], name: str, search: SearchRun | None = None) -> Result:
        """Call `fit` for a population, in its own folder or without one.

        Args:
            algo: The algorithm.
            members: The members to train.
            name: The name of the folder. If it already holds this population, training continues.
            search: See `fit`; its notes for run.json come in addition to those in every run of the search.

        Raises:
            StoppedError: A signal ended training.
            DivergedError: All members diverged.
        """
        path = None if self.folder is None else self.folder / name
        search = search or SearchRun()
        search = search._replace(notes={**self.notes(), **(search.notes or {})})
        shared: dict[str, Any] = {"resume": "auto", "pictures": False, "search": search}
        result = fit(algo, self.config, path, members=members, **self.options, **shared)
        if result.stopped:
            raise StoppedError(result.stopped)
        return result

    def trials(self, tried: Sequence[Point], result: Result, updates: int) -> list[Trial]:
        """The trials of points that `fit` trained for `updates` updates, in the order of `members`."""
        steps, seeds = updates * self.config.steps_per_update, len(self.seeds)
        rows = member_rows(result, np.isin(np.arange(len(tried) * seeds), result.diverged))
        return [trial_of(point, rows[i * seeds : (i + 1) * seeds], steps) for i, point in enumerate(tried)]

    def notes(self) -> dict[str, Any]:
        """The facts in run.json that mark a run as part of a search's tuning."""
        return {"tuning_seeds": self.seeds}


def member_rows(result: Result, diverged: np.ndarray) -> list[Row]:
    """The scores of a run's members, as rows for `trial_of`.

    Args:
        result: The result of `fit`.
        diverged: bool `[M]`, the members whose score is meaningless.
    """
    evaluation = result.evaluation or {}
    metric = metric_of(evaluation)
    scores = np.where(diverged, np.nan, np.array(evaluation[metric], np.float64))
    return [
        {metric: float(score) if np.isfinite(score) else None, "curve_mean": mean}
        for score, mean in zip(scores, curve_means(result.metrics, len(diverged)), strict=True)
    ]


def trial_of(point: Point, rows: Sequence[Row], steps: int) -> Trial:
    """The trial of a point, from the rows of its members.

    Args:
        point: The point that was tried.
        rows: The score and `curve_mean` of each member.
        steps: Environment steps of each member.
    """
    curves = [row["curve_mean"] for row in rows if row["curve_mean"] is not None]
    scores = [row.get(metric_of(row)) for row in rows]
    return Trial(point, scores, sum(curves) / len(curves) if curves else None, steps)


def best_so_far(trials: Sequence[Trial]) -> list[Incumbent]:
    """The incumbents of trials that ran one after another, or side by side and counted in their order."""
    found: list[Incumbent] = []
    spent = 0
    rank = (-math.inf, -math.inf)
    for trial in trials:
        spent += trial.timesteps * len(trial.scores)
        if math.isfinite(trial.score) and trial.rank > rank:
            rank = trial.rank
            found.append(Incumbent(spent, trial.score, trial.point))
    return found


@dataclasses.dataclass(frozen=True)
class Random:
    """As many draws from the space as the budget pays for."""

    def check(self, task: Task) -> None:
        """See `Method`."""
        task.check(task.draws(task.budget))

    def __call__(self, task: Task) -> Found:
        """See `Method`."""
        return _found(task, task.draws(task.budget))


@dataclasses.dataclass(frozen=True)
class Grid:
    """All combinations of lists of values."""

    def check(self, task: Task) -> None:
        """See `Method`."""
        task.check(self._points(task))

    def __call__(self, task: Task) -> Found:
        """See `Method`."""
        return _found(task, self._points(task))

    def _points(self, task: Task) -> list[Point]:
        choices = {name: each for name, each in task.dimensions.items() if isinstance(each, Choice)}
        ranges = sorted(set(task.space) - set(choices))
        if ranges:
            raise ValueError(
                f"A grid is made of lists, but {', '.join(ranges)} has a range; list values, or use random."
            )
        tried = distinct(effective(task.config, point) for point in grid(choices))
        if len(tried) > task.budget:
            raise ValueError(f"The grid has {len(tried)} points, more than the budget of {task.budget}; raise it.")
        return tried


def _found(task: Task, tried: list[Point]) -> Found:
    task.tell(tried, task.budget)
    trials = task.train(tried)
    incumbents = best_so_far(trials)
    return Found(trials, incumbents, incumbents[-1].point if incumbents else {})


@dataclasses.dataclass(frozen=True)
class Halving:
    """Train many points for a short while, then the best of them for longer, and a few to the end.

    Successive halving is by Jamieson and Talwalkar (2016), https://arxiv.org/abs/1502.07943.

    At each rung, the survivors' train states are gathered on the device, so that nothing is trained twice: with the
    defaults, one point in three continues after a ninth and after a third of a run. A budget of 16 runs then pays for
    62 points.
    """

    eta: int = 3
    """One point in `eta` continues."""
    rungs: int = 3
    """The number of evaluations; the last one is at the end of training."""

    def check(self, task: Task) -> None:
        """See `Method`."""
        if self.eta < 2 or self.rungs < 1:
            raise ValueError(f"eta must be at least 2 and rungs at least 1, got {self.eta} and {self.rungs}.")
        points = self.plan(task)[0][1]
        task.only_traced("halving", points * len(task.seeds))
        task.draws(points)

    def plan(self, task: Task) -> list[tuple[int, int]]:
        """The update at which each rung ends and its number of points, as many as the budget pays for."""
        updates = task.config.num_updates
        ends = sorted({max(1, round(updates / self.eta**i)) for i in range(self.rungs)})
        lengths = np.diff([0, *ends])

        def counts(first: int) -> list[int]:
            return [max(1, first // self.eta**i) for i in range(len(ends))]

        first = 1
        while np.dot(counts(first + 1), lengths) <= task.budget * updates:
            first += 1
        return list(zip(ends, counts(first), strict=True))

    def __call__(self, task: Task) -> Found:
        """See `Method`."""
        plan = self.plan(task)
        algo, seeds = task.algorithm.make(task.config), len(task.seeds)
        alive, state, first, spent = task.draws(plan[0][1]), None, 0, 0
        task.tell(alive, plan[0][1])
        ended: list[Trial] = []
        incumbents: list[Incumbent] = []
        trials: list[Trial] = []
        for number, (last, count) in enumerate(plan):
            if trials:  # the survivors go on from the train states in which the rung before has left them
                kept = sorted(range(len(trials)), key=lambda i: trials[i].rank, reverse=True)[:count]
                state = _gathered(state, len(alive) * seeds, [i * seeds + s for i in kept for s in range(seeds)])
                alive = [alive[i] for i in kept]
            try:
                segment = Segment(first, last, state)
                result = task.fit(algo, task.members(alive), f"rung-{number}", SearchRun(segment=segment))
            except DivergedError:
                break
            trials = task.trials(alive, result, last)
            # A rung costs its own updates alone; those before are paid for.
            spent += (last - first) * task.config.steps_per_update * seeds * len(alive)
            ended += trials
            best = max(trials, key=lambda trial: trial.rank)
            if math.isfinite(best.score):
                incumbents.append(Incumbent(spent, best.score, best.point))
            state, first = result.state, last
        return Found(ended, incumbents, incumbents[-1].point if incumbents else {})


def _gathered(state: Any, members: int, kept: list[int]) -> Any:
    """The train states of the kept members; a single member has no members axis."""
    if members == 1:
        return state
    return member_of(state, kept[0] if len(kept) == 1 else kept)
