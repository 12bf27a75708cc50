"""Random search and grid search: points that are known in advance, each trained to the end."""

from __future__ import annotations

import dataclasses

from jaxrl.tuning.search_space import Choice, Point, distinct, effective, grid
from jaxrl.tuning.task import Found, Task, best_so_far

__all__ = ["Grid", "Random"]


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
