"""Population-based training (Jaderberg et al. 2017, https://arxiv.org/abs/1711.09846), inside the compiled loop."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import numpy as np

from jaxrl.train.devices.mesh import MeshShape, choose_mesh
from jaxrl.train.health.divergence import finite_members
from jaxrl.train.members import Members
from jaxrl.train.programs import compile_programs
from jaxrl.train.run import Result, SearchRun
from jaxrl.tuning.evolve import evolve, population
from jaxrl.tuning.lineage import ancestors
from jaxrl.tuning.search_space import Point
from jaxrl.tuning.task import Found, Incumbent, Task, member_rows, trial_of

__all__ = ["PBT"]


@dataclasses.dataclass(frozen=True)
class PBT:
    """One population that uses the whole budget: as many members as points times tuning seeds.

    After each generation, the worst quarter copies the parameters, the optimiser's state and the hyperparameters of
    members drawn from the best quarter, and then changes the hyperparameters. Scores are means over the episodes that
    ended in the generation. Each member always has its own environments and random keys, even if several start with
    the same point or the same seed. After the first generation, members of one point have different hyperparameters,
    so each member is a trial by itself: its point is the one it had in the last generation.
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

    def check(self, task: Task) -> None:
        """See `Method`."""
        if self.generations < 2 or not 0 < self.quantile <= 0.5 or not 0 <= self.resample <= 1:
            raise ValueError(
                f"PBT needs at least 2 generations, a quantile above 0 and up to 0.5 and a probability resample; got "
                f"{self.generations}, {self.quantile} and {self.resample}."
            )
        members = task.budget * len(task.seeds)
        if members < 2:
            raise ValueError("PBT needs a population: a budget of at least 2, or several tuning seeds.")
        if task.config.num_updates < self.generations:
            raise ValueError(
                f"{task.config.num_updates} updates cannot be cut into {self.generations} generations; raise "
                f"total_timesteps, or give method=PBT(generations={max(2, task.config.num_updates // 2)})."
            )
        task.draws(1)
        task.only_traced("pbt", members)

    def __call__(self, task: Task) -> Found:
        """See `Method`."""
        algo = task.algorithm.make(task.config)
        start = {name: getattr(task.config, name) for name in task.space}
        drawn = task.draws(task.budget) if self.draw else [start]
        tried = [drawn[i % len(drawn)] for i in range(task.budget)]
        members = task.members(tried)
        mesh = choose_mesh(task.config, len(members), MeshShape(data=1))
        every = task.config.num_updates // self.generations
        grown = population(algo, self.generations)
        across = partial(evolve, task.dimensions, self.quantile, self.resample, every)
        who = Members.of(task.config, members)
        if not task.options["quiet"]:
            print(f"A population of {len(members)}, {self.generations} generations; compiling…")
        programs = compile_programs(grown, task.config, who, task.options["eval_episodes"], mesh, across)
        search = SearchRun(programs=programs, notes={"population": dataclasses.asdict(self)})
        result = task.fit(grown, members, "population", search)
        return _found(task, members, result, every)


def _found(task: Task, members: list[Point], result: Result, every: int) -> Found:
    """The result of a trained population."""
    past = jax.device_get(result.state.past)
    columns = {name: getattr(past.hyperparams, name) for name in task.space}  # [M, G]

    def point(member: int, generation: int) -> Point:
        return {name: float(column[member, generation]) for name, column in columns.items()}

    steps, last = task.config.steps_per_update, past.score.shape[1] - 1
    total = task.config.num_updates * steps
    rows = member_rows(result, ~finite_members(result.state.params, len(members)))
    trials = [trial_of(point(m, last), [row], total) for m, row in enumerate(rows)]
    incumbents = []
    for generation in range(last):
        best = int(past.score[:, generation].argmax())
        spent = (generation + 1) * every * steps * len(members)
        incumbents.append(Incumbent(spent, float(past.score[best, generation]), point(best, generation)))
    best = max(range(len(members)), key=lambda m: trials[m].rank)
    incumbents.append(Incumbent(total * len(members), trials[best].score, point(best, last)))
    lineage = [point(m, generation) for generation, m in enumerate(ancestors(past.parent, best))]
    return Found(trials, [i for i in incumbents if np.isfinite(i.score)], lineage[-1], lineage)
