"""Population-based training (Jaderberg et al. 2017, https://arxiv.org/abs/1711.09846), inside the compiled loop."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxrl.train.devices.mesh import MeshShape, choose_mesh
from jaxrl.train.health.divergence import finite_members
from jaxrl.train.members import Members
from jaxrl.train.programs import compile_programs
from jaxrl.train.result import Result
from jaxrl.train.run import SearchRun
from jaxrl.tuning.evolve import evolve, population
from jaxrl.tuning.finalists import train_finalists
from jaxrl.tuning.lineage import ancestors, distant
from jaxrl.tuning.search_space import Choice, Point, effective
from jaxrl.tuning.task import Found, Incumbent, Task, Trial, best_so_far, member_rows, trial_of

__all__ = ["PBT", "Grown", "grown"]


@dataclasses.dataclass(frozen=True)
class PBT:
    """One population of points times tuning seeds, whose best lineages are then trained once more and compared.

    After each generation, the worst quarter copies the parameters, the optimiser's state and the hyperparameters of
    members drawn from the best quarter, and then changes the hyperparameters. Scores are means over the episodes that
    ended in the generation. Each member always has its own environments and random keys, even if several start with
    the same point or the same seed. After the first generation, members of one point have different hyperparameters,
    so each member is a trial by itself: its point is the one it had in the last generation.

    The best of many single runs is often a lucky one. So the lineages of a few good members, the finalists, are trained
    from nothing with every tuning seed, and the best mean wins. A finalist costs as much as a point of the population.
    """

    generations: int = 20
    """The number of equal parts into which training is divided."""
    quantile: float = 0.25
    """The share of the members that is replaced, and the share that replaces them."""
    resample: float = 0.25
    """The probability that a hyperparameter is redrawn; otherwise it moves: in a range with "log" by a factor of 0.8
    or 1.2, in any other range by a tenth of its width, in a list to a neighbour."""
    draw: bool = True
    """Whether to start with draws from the space; if False, all members start with the config's values."""
    finalists: int = 4
    """How many members to compare at the end, related as distantly as possible. They get at most a quarter of the
    budget, so there are fewer with a budget below 16. With 1, or a budget below 8, the best member wins by its own
    score."""

    def check(self, task: Task) -> None:
        """See `Method`."""
        if self.generations < 2 or not 0 < self.quantile <= 0.5 or not 0 <= self.resample <= 1:
            raise ValueError(
                f"PBT needs at least 2 generations, a quantile above 0 and up to 0.5 and a probability resample; got "
                f"{self.generations}, {self.quantile} and {self.resample}."
            )
        if self.finalists < 1:
            raise ValueError(f"finalists must be at least 1, with which the best member wins; got {self.finalists}.")
        members = self.plan(task)[0] * len(task.seeds)
        if members < 2:
            raise ValueError("PBT needs a population: a budget of at least 2, or several tuning seeds.")
        updates, enough = task.config.num_updates, self.generations * task.config.steps_per_update
        if updates < self.generations:
            fewer = f", or, in Python, method=PBT(generations={max(2, updates // 2)})" if updates > 1 else ""
            raise ValueError(
                f"{updates} updates cannot be cut into {self.generations} generations; use at least "
                f"total_timesteps={enough} (--total-timesteps {enough}){fewer}."
            )
        task.only_traced("pbt", members)
        for name, dimension in task.dimensions.items():
            # Wherever members start, they may come to the ends of a range, and to each value of a list.
            ends = dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high)
            for value in ends:
                effective(task.config, {name: value})

    def plan(self, task: Task) -> tuple[int, int]:
        """The number of points in the population and the number of finalists, as many as the budget pays for."""
        finalists = min(self.finalists, task.budget // 4)
        return (task.budget - finalists, finalists) if finalists > 1 else (task.budget, 1)

    def __call__(self, task: Task) -> Found:
        """See `Method`."""
        points, finalists = self.plan(task)
        every = task.config.num_updates // self.generations
        trials, incumbents, lineages = grown(task, self._train(task, points, every), every, finalists)
        best = 0
        if len(lineages) > 1:
            if not task.options["quiet"]:
                print(f"{len(lineages)} finalists, each with every tuning seed; compiling…")
            spent = sum(trial.timesteps for trial in trials)
            finals = train_finalists(task, lineages, every)
            incumbents += [each._replace(timesteps=spent + each.timesteps) for each in best_so_far(finals)]
            if any(np.isfinite(trial.score) for trial in finals):
                best = max(range(len(finals)), key=lambda i: finals[i].rank)
            trials += finals
        return Found(trials, incumbents, lineages[best][-1], lineages[best])

    def _train(self, task: Task, points: int, every: int) -> Result:
        """Train the population."""
        start = {name: getattr(task.config, name) for name in task.space}
        drawn = task.draws(points) if self.draw else [start]
        members = task.members([drawn[i % len(drawn)] for i in range(points)])
        shape = MeshShape(data=1)
        mesh = choose_mesh(task.config, len(members), shape)
        algo = population(task.algorithm.make(task.config), self.generations)
        across = partial(evolve, task.dimensions, self.quantile, self.resample, every)
        who = Members.of(task.config, members)
        if not task.options["quiet"]:
            print(f"A population of {len(members)}, {self.generations} generations; compiling…")
        programs = compile_programs(algo, task.config, who, task.options["eval_episodes"], mesh, across)
        search = SearchRun(programs=programs, notes={"population": dataclasses.asdict(self)})
        task = dataclasses.replace(task, options={**task.options, "mesh": shape})  # for run.json
        return task.fit(algo, members, "population", search)


class Grown(NamedTuple):
    """The outcome of a trained population."""

    trials: list[Trial]
    """One per member."""
    incumbents: list[Incumbent]
    lineages: list[list[Point]]
    """The lineages of the finalists; the first is that of the best member."""


def grown(task: Task, result: Result, every: int, finalists: int) -> Grown:
    """The outcome of a trained population.

    Args:
        task: What to search.
        result: The result of training.
        every: Updates per generation.
        finalists: The most members whose lineages to return, all different and related as distantly as possible.
    """
    past = jax.device_get(result.state.past)
    columns = {name: getattr(past.hyperparams, name) for name in task.space}  # [M, G]
    members, generations = past.score.shape

    def point(member: int, generation: int) -> Point:
        return {name: float(column[member, generation]) for name, column in columns.items()}

    def lineage(member: int) -> list[Point]:
        return [point(m, generation) for generation, m in enumerate(ancestors(past.parent, member))]

    steps, last = task.config.steps_per_update, generations - 1
    total = task.config.num_updates * steps
    rows = member_rows(result, ~finite_members(result.state.params, members))
    trials = [trial_of(point(m, last), [row], total) for m, row in enumerate(rows)]
    incumbents = []
    for generation in range(last):
        best = int(past.score[:, generation].argmax())
        spent = (generation + 1) * every * steps * members
        incumbents.append(Incumbent(spent, float(past.score[best, generation]), point(best, generation)))
    ranked = sorted(range(members), key=lambda m: trials[m].rank, reverse=True)
    best = ranked[0]
    incumbents.append(Incumbent(total * members, trials[best].score, point(best, last)))
    different: dict[str, int] = {}
    for m in ranked:
        if m == best or np.isfinite(trials[m].score):
            different.setdefault(repr(lineage(m)), m)
    lineages = [lineage(m) for m in distant(past.parent, list(different.values()), finalists)]
    return Grown(trials, [i for i in incumbents if np.isfinite(i.score)], lineages)
