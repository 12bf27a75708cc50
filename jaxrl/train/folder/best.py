"""The best checkpoint: the parameters with the best score in an evaluation."""

from __future__ import annotations

import math
from typing import Any

from jaxrl.algorithm import without_replay
from jaxrl.errors import CheckpointError
from jaxrl.train.devices import hosts
from jaxrl.train.folder.checkpoint import Checkpoints
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.metrics import rank

__all__ = ["keep_best"]


def keep_best(folder: RunFolder, update: int, state: Any) -> CheckpointError | None:
    """Save `state` under `best/` if the last row of evaluations.jsonl, which belongs to it, beats all earlier ones.

    A replay buffer is left out.

    Returns:
        The error if it could not be saved; training should go on.
    """
    rows, unread = [], None
    try:
        rows = folder.evaluations.read()
    except (OSError, ValueError) as error:
        unread = CheckpointError(f"{folder.evaluations.path} cannot be read, so the best is not kept: {error}")
    if not hosts.main_says(_is_best(rows)):
        return unread
    try:
        with Checkpoints(folder.best, keep=1) as best:
            best.save(update, without_replay(state), {"evaluation": rows[-1] if rows else None})
    except CheckpointError as error:
        return error
    return None


def _is_best(rows: list[dict[str, Any]]) -> bool:
    """Whether the last evaluation beats all earlier ones; the evaluation before training does not count."""
    ranks = [rank(row) for row in rows if row["timesteps"]]
    return bool(ranks) and math.isfinite(ranks[-1][0]) and all(ranks[-1] > before for before in ranks[:-1])
