"""Successive halving (Jamieson and Talwalkar 2016, https://arxiv.org/abs/1502.07943): only the best points continue."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from jaxrl.errors import DivergedError
from jaxrl.train.members import member_of
from jaxrl.train.run import SearchRun, Segment
from jaxrl.tuning.task import Found, Incumbent, Task, Trial

__all__ = ["Halving"]


@dataclasses.dataclass(frozen=True)
class Halving:
    """Train many points for a short while, then the best of them for longer, and a few to the end.

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
            if trials:
                kept = sorted(range(len(trials)), key=lambda i: trials[i].rank, reverse=True)[:count]
                state = _gathered(state, len(alive) * seeds, [i * seeds + s for i in kept for s in range(seeds)])
                alive = [alive[i] for i in kept]
            try:
                segment = Segment(first, last, state)
                result = task.fit(algo, task.members(alive), f"rung-{number}", SearchRun(segment=segment))
            except DivergedError:
                break
            trials = task.trials(alive, result, last)
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
