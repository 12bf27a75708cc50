"""The finalists of a population: their lineages, trained from scratch with every tuning seed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np

from jaxrl.errors import DivergedError
from jaxrl.train.devices.mesh import choose_mesh
from jaxrl.train.lineage import at_generation
from jaxrl.train.members import Members
from jaxrl.train.programs import compile_programs
from jaxrl.train.run import SearchRun
from jaxrl.tuning.search_space import Point
from jaxrl.tuning.task import Task, Trial

__all__ = ["train_finalists"]


def train_finalists(task: Task, lineages: Sequence[list[Point]], every_updates: int) -> list[Trial]:
    """Train all finalists side by side, in one program.

    Args:
        task: What to search.
        lineages: The hyperparameters of each finalist, generation by generation; at least two finalists.
        every_updates: Updates per generation.

    Returns:
        A trial for each finalist, with the point of its last generation and a score for each tuning seed.

    Raises:
        StoppedError: A signal ended training.
    """
    algo, updates = task.algorithm.make(task.config), task.config.num_updates
    members = task.members([lineage[0] for lineage in lineages])
    each = [lineage for lineage in lineages for _ in task.seeds]
    values = {name: np.array([[point[name] for point in own] for own in each], np.float32) for name in task.space}
    programs = compile_programs(
        algo,
        task.config,
        Members.of(task.config, members),
        task.options["eval_episodes"],
        choose_mesh(task.config, len(members)),
        lambda state: jax.vmap(partial(at_generation, every_updates=every_updates))(values, state),
    )
    notes = {"population": {"every_updates": every_updates, "lineages": list(lineages)}}
    search = SearchRun(programs=programs, notes=notes)
    points = [lineage[-1] for lineage in lineages]
    try:
        result = task.fit(algo, members, "finalists", search)
    except DivergedError:
        return [
            Trial(point, [None for _ in task.seeds], None, updates * task.config.steps_per_update) for point in points
        ]
    return task.trials(points, result, updates)
