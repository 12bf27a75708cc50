"""A search that takes no time, and what is known of its results."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import echo

import jaxrl
from jaxrl.tuning import Task, Trial

CONFIG = echo.Config()
UPDATES = CONFIG.num_updates
OPTIONS: dict[str, Any] = {"eval_episodes": 2, "quiet": True, "tuning_seeds": 2, "test_seeds": 3}
RATES = (1e-6, 1e-1, "log")


def search(run_dir: Path | None = None, **options: Any) -> Any:
    return jaxrl.search(echo, CONFIG, run_dir, **{"lr": RATES, **OPTIONS, **options})


def learned(trial: Trial) -> float:
    """What a point learns in the time it was given."""
    return echo.gain(trial.point["lr"]) * trial.timesteps


def spent(trials: list[Trial]) -> int:
    """Environment steps of trials that were each trained from the start."""
    return sum(trial.timesteps * len(trial.scores) for trial in trials)


def task(budget: int, method: Any = None, **changed: Any) -> Task:
    config = dataclasses.replace(CONFIG, **changed)
    return Task(echo, config, {"lr": RATES}, budget, [0, 1], None, None, {**OPTIONS, "mesh": None})
