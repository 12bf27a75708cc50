"""The best checkpoint: the very parameters that earned the best score in an evaluation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxrl.train import hosts
from jaxrl.train.checkpoint import CheckpointError, Checkpoints
from jaxrl.train.run_folder import RunFolder

__all__ = ["keep_best", "score"]


def score(evaluation: dict[str, Any]) -> float:
    """What an evaluation is judged by: the win rate where there is one, else the mean return; seeds are averaged.

    One that is not known for every seed is worse than any other.
    """
    mean = np.mean(np.array(evaluation.get("win_rate", evaluation["return_mean"]), np.float64))
    return float(mean) if np.isfinite(mean) else -math.inf


def keep_best(folder: RunFolder, update: int, state: Any) -> CheckpointError | None:
    """Save `state` under `best/` if the last row of evaluations.jsonl, which is its own, beats all before.

    Returns:
        Why it could not be saved, if so; training should go on.
    """
    *before, last = folder.evaluations.read()
    before = [row for row in before if row["timesteps"]]  # the first is of what has learned nothing
    if not hosts.main_says(not before or score(last) > max(map(score, before))):
        return None
    try:
        with Checkpoints(folder.best, keep=1) as best:
            best.save(update, state, {"evaluation": last})
    except CheckpointError as error:
        return error
    return None
