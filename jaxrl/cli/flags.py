"""Flags that several commands share."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from jaxrl.train.loggers import Kind, Names

__all__ = ["LoggerFlags", "MeshFlags", "RecordFlags", "StartFlags"]


@dataclasses.dataclass(frozen=True)
class MeshFlags:
    """Devices along each axis."""

    member: int = 0
    """Devices to spread the seeds over; 0 chooses automatically."""
    data: int = 0
    """Devices to spread the environments of a seed over; 0 chooses automatically."""


@dataclasses.dataclass(frozen=True)
class LoggerFlags:
    """Where metrics go."""

    logger: Kind = "jsonl"
    """Logger in addition to metrics.jsonl. wandb stays offline unless you are logged in."""
    logger_names: Names = "jaxrl"
    """The logger's names for metrics; the tools of Open RL Benchmark read cleanrl."""
    logger_per_seed: bool = False
    """One wandb run or TensorBoard folder for each seed, instead of one with the mean over all of them."""

    def chosen_logger(self) -> dict[str, Any]:
        """The fields of `LoggerOptions`."""
        return {"kind": self.logger, "names": self.logger_names, "per_seed": self.logger_per_seed}


@dataclasses.dataclass(frozen=True)
class StartFlags:
    """What to start from."""

    init_from: Path | None = None
    """Start from the parameters of this run, which must have the same spaces and networks. RUN:2 is the seed with index
    2."""
    init_learner: bool = False
    """With --init-from: take over the optimiser and the normalisers too."""
    init_best: bool = False
    """With --init-from: start from its best checkpoint instead of its last one."""
    init_member: int | None = None
    """With --init-from: the index of the seed to start from in a run with several."""
    trust: bool = False
    """With --init-from: execute the module that the run names, although it is not part of jaxrl and the run was not
    made here."""

    def chosen_start(self) -> Any:
        """The `InitFrom` that they stand for; None without a run.

        Raises:
            ValueError: A flag needs a run.
        """
        given = (self.init_learner, self.init_best, self.init_member, self.trust)
        if self.init_from is None:
            if given != (False, False, None, False):
                raise ValueError("--init-learner, --init-best, --init-member and --trust need a run: --init-from RUN.")
            return None
        from jaxrl.train.start import InitFrom

        return InitFrom(self.init_from, *given)


@dataclasses.dataclass(frozen=True)
class RecordFlags:
    """What is written and shown while it trains."""

    log_every: int | None = None
    """Updates per row of metrics.jsonl; left out, there are at most 500 rows."""
    eval_episodes: int = 512
    """Episodes per evaluation."""
    checkpoint_every_updates: int | None = None
    """Updates between checkpoints, in addition to those by time; one is always saved at the end."""
    checkpoint_every_minutes: float | None = None
    """Minutes between checkpoints; left out, 5."""
    quiet: bool = False
    """Show nothing during training."""
