"""Optuna's tree-structured Parzen estimator, which proposes points in batches so that each batch shares a program."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping
from typing import Any

from jaxrl.errors import MissingExtraError
from jaxrl.tuning.fixed import Random
from jaxrl.tuning.search_space import Choice, Point, distinct, effective
from jaxrl.tuning.task import Found, Task, Trial, best_so_far

__all__ = ["Optuna"]

_REPEATS = 100  # of points that are known already, after which a batch is filled up by draws


@dataclasses.dataclass(frozen=True)
class Optuna:
    """Ask for a batch of points, train them side by side, tell Optuna their scores, until the budget is spent.

    The first batch is drawn at random. The sampler uses the config's seed, so that a search is reproducible. Each point
    is trained once, although Optuna proposes listed values again; if the budget pays for all points of a space, all of
    them are.
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
        known: dict[str, Trial] = {}
        while len(known) < task.budget:
            asked, tried = _proposed(task, optuna, study, known, min(self.batch, task.budget - len(known)))
            trials = task.train(tried, f"batch-{len(known):03d}")
            known |= {repr(point): trial for point, trial in zip(tried, trials, strict=True)}
            for each, point in asked:
                _tell(optuna, study, each, known[repr(point)])
        trials = list(known.values())
        incumbents = best_so_far(trials)
        return Found(trials, incumbents, incumbents[-1].point if incumbents else {})


def _proposed(
    task: Task, optuna: Any, study: Any, known: Mapping[str, Trial], count: int
) -> tuple[list[tuple[Any, Point]], list[Point]]:
    """What Optuna asks for, as far as its score is not known, and `count` new points to train, each of them once.

    Of listed values Optuna proposes good ones again. It is told at once what is known of them, and where it does not
    come to enough new points, the rest are the task's own draws, of which it hears when it proposes them.
    """
    distributions = {name: _distribution(optuna, each) for name, each in task.dimensions.items()}
    asked: list[tuple[Any, Point]] = []
    new: list[Point] = []
    repeats = 0
    while len(new) < count and repeats < _REPEATS:
        each = study.ask(distributions)
        point = effective(task.config, _point(task, each.params))
        before = len(new)
        if repr(point) in known:
            _tell(optuna, study, each, known[repr(point)])
        else:
            asked.append((each, point))
            new = distinct([*new, point])
        repeats += len(new) == before
    if len(new) < count:
        new += [point for point in task.draws(task.budget) if repr(point) not in known]
    return asked, distinct(new, count)


def _tell(optuna: Any, study: Any, asked: Any, trial: Trial) -> None:
    """Tell Optuna the score of a point, or that it has none."""
    if math.isfinite(trial.score):
        study.tell(asked, trial.score)
    else:
        study.tell(asked, state=optuna.trial.TrialState.FAIL)


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
