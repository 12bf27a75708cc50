"""Flags that several commands share."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from jaxrl.train.loggers import Kind, Names

__all__ = ["LoggerFlags", "MeshFlags", "RecordFlags", "StartFlags", "TrustFlags"]


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
class TrustFlags:
    """Whose code may be executed."""

    trust: bool = False
    """Execute the modules that other runs given here name, such as a partner's, although they are not part of jaxrl and
    the runs were not made here."""

    def vouch_for(self, config: Any) -> None:
        """Load what may be executed, so that the environment of the config can have it.

        Raises:
            ValueError: No flag names a run to trust.
        """
        if not self.trust:
            return
        from jaxrl.train.folder.load import load_met

        named = self._named_runs(config)
        if not any(named.values()):
            raise ValueError(f"--trust needs a run: {' or '.join(named) or 'no flag here names one'}.")
        load_met(getattr(config, "policies", ()))

    def _named_runs(self, config: Any) -> dict[str, bool]:
        """The flags that can name other runs, and whether they do."""
        from jaxrl.wrappers.players import fixed_runs

        return {"--policies PATTERN=RUN": bool(fixed_runs(config.policies))} if hasattr(config, "policies") else {}


@dataclasses.dataclass(frozen=True)
class StartFlags(TrustFlags):
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

    def chosen_start(self) -> Any:
        """The `InitFrom` that they stand for; None without a run.

        Raises:
            ValueError: A flag needs a run.
        """
        given = (self.init_learner, self.init_best, self.init_member)
        if self.init_from is None:
            if given != (False, False, None):
                raise ValueError("--init-learner, --init-best and --init-member need a run: --init-from RUN.")
            return None
        from jaxrl.train.start import InitFrom

        return InitFrom(self.init_from, *given, self.trust)

    def _named_runs(self, config: Any) -> dict[str, bool]:
        return {**super()._named_runs(config), "--init-from RUN": self.init_from is not None}


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
