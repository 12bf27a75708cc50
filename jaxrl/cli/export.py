"""`jaxrl export`: a run's metrics for other tools, after it was trained."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

from jaxrl.train.loggers import Logger, Names, make_logger
from jaxrl.train.run_folder import RunFolder, latest_run

__all__ = ["export"]


@dataclasses.dataclass(frozen=True)
class ExportFlags:
    """Give a run's metrics to other tools: CSV files, TensorBoard or wandb, by CleanRL's names or ours."""

    run: tyro.conf.Positional[Path | None] = None
    """The run folder; the latest one in runs/ if left out."""
    to: Literal["csv", "tensorboard", "wandb"] = "csv"
    """What to write. wandb stays offline unless you are logged in."""
    format: Names = "cleanrl"
    """The names of the metrics; cleanrl is what the tools of Open RL Benchmark read."""
    per_seed: bool = True
    """One file, folder or wandb run for each seed, instead of one with the mean over all of them."""
    out: Path | None = None
    """Where to write; RUN/export if left out."""


def export(argv: list[str]) -> int:
    """`jaxrl export [RUN]`; returns the exit code."""
    flags = tyro.cli(ExportFlags, args=argv, prog="jaxrl export")
    folder = RunFolder.open(flags.run or latest_run())
    rows = folder.metrics.read()
    if not rows:
        raise ValueError(f"{folder.path} has no metrics yet.")
    out = flags.out or folder.path / "export"
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} has something in it already; name another place with --out.")
    logger = _logger(flags)
    about = folder.read()
    out.mkdir(parents=True, exist_ok=True)
    logger.open(about, out, print)
    events = [(row["timesteps"], 0, row) for row in rows]
    events += [(row["timesteps"], 1, row) for row in folder.evaluations.read()]
    for _, is_evaluation, row in sorted(events, key=lambda event: event[:2]):
        (logger.evaluation if is_evaluation else logger.row)(row)
    logger.close(about)
    print(f"Wrote {out}: " + ", ".join(sorted(str(path.relative_to(out)) for path in out.iterdir())))
    return 0


def _logger(flags: ExportFlags) -> Logger:
    if flags.to == "csv":
        from jaxrl.train.loggers.to_csv import CsvLogger

        return CsvLogger(flags.format, flags.per_seed)
    return make_logger({"kind": flags.to, "names": flags.format, "per_seed": flags.per_seed})[0]
