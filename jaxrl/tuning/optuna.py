"""Optuna's tree-structured Parzen estimator, which proposes points in batches so that each batch shares a program."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

from jaxrl.errors import MissingExtraError
from jaxrl.tuning.fixed import Random
from jaxrl.tuning.search_space import Choice, Point
from jaxrl.tuning.task import Found, Task, Trial, best_so_far

__all__ = ["Optuna"]


@dataclasses.dataclass(frozen=True)
class Optuna:
    """Ask for a batch of points, train them side by side, tell Optuna their scores, until the budget is spent.

    The first batch is drawn at random. The sampler uses the config's seed, so that a search is reproducible. If the
    budget pays for all points of a space, each is tried once: Optuna would propose some again and others never.
    """

    batch: int = 8
    """Points per batch."""

    def check(self, task: Task) -> None:
        """See `Method`.

        Raises:
            MissingExtraError: Optuna is not installed.
        """
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1, got {self.batch}.")
        _optuna()
        task.check(task.draws(task.budget))

    def __call__(self, task: Task) -> Found:
        """See `Method`."""
        if len(task.draws(task.budget + 1)) <= task.budget:
            return Random()(task)
        optuna = _optuna()
        study = optuna.create_study(direction="maximize", sampler=_sampler(optuna, task.config.seed, self.batch))
        distributions = {name: _distribution(optuna, each) for name, each in task.dimensions.items()}
        trials: list[Trial] = []
        while len(trials) < task.budget:
            asked = [study.ask(distributions) for _ in range(min(self.batch, task.budget - len(trials)))]
            tried = task.train([_point(task, each.params) for each in asked], f"batch-{len(trials):03d}")
            for each, trial in zip(asked, tried, strict=True):
                if math.isfinite(trial.score):
                    study.tell(each, trial.score)
                else:
                    study.tell(each, state=optuna.trial.TrialState.FAIL)
            trials += tried
        incumbents = best_so_far(trials)
        return Found(trials, incumbents, incumbents[-1].point if incumbents else {})


def _sampler(optuna: Any, seed: int, startup: int) -> Any:
    """A sampler that treats a proposed point as a bad one until it is told the score.

    Without this option, `constant_liar`, it would learn nothing between the points of a batch and draw them all from
    the same narrow region.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # Optuna 4 calls the option experimental
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup, constant_liar=True)


def _distribution(optuna: Any, dimension: Any) -> Any:
    """A dimension for Optuna, which gets the indices of listed values because it does not accept tuples."""
    if isinstance(dimension, Choice):
        return optuna.distributions.CategoricalDistribution(range(len(dimension.values)))
    return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _point(task: Task, params: dict[str, Any]) -> Point:
    return {
        name: each.values[params[name]] if isinstance(each, Choice) else params[name]
        for name, each in task.dimensions.items()
    }


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("method optuna needs Optuna: pip install 'jaxrl[optuna]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
