"""`sweep`: seeds times hyperparameters, side by side in as few programs as possible."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from jaxrl.algorithm import check_module
from jaxrl.errors import MissingExtraError
from jaxrl.train.devices.mesh import MeshShape
from jaxrl.train.loggers import Logger
from jaxrl.train.start import InitFrom
from jaxrl.tuning.member_groups import (
    MemberGroup,
    Row,
    check_start,
    chosen_seeds,
    make_groups,
    train_groups,
)
from jaxrl.tuning.plan_file import PlanFile, recorded
from jaxrl.tuning.search_space import describe_space, points, read_space

__all__ = ["SAMPLES", "SweepResult", "sweep"]

SAMPLES = 8
"""The number of points drawn from ranges by default."""


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """The result of a sweep."""

    table: list[Row]
    """One row per member: its hyperparameters, `seed`, the numbers of the final greedy evaluation (None if diverged),
    `curve_mean` (of the win rate, or otherwise the return, over all of training) and `diverged`."""
    run_dir: Path | None
    """The folder with sweep.json and a run folder for each group."""
    stopped: str | None
    """The signal that ended the sweep early; `table` then has the finished groups."""

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("to_pandas needs pandas: pip install pandas") from error
        return pd.DataFrame(self.table)


def sweep(
    algorithm: ModuleType,
    config: Any,
    run_dir: str | Path | None = None,
    *,
    seeds: int | Sequence[int] = 1,
    samples: int = SAMPLES,
    max_members: int | None = None,
    mesh: MeshShape | None = None,
    log_every: int | None = None,
    eval_every: int | None = None,
    eval_episodes: int = 512,
    checkpoint_every_updates: int | None = None,
    checkpoint_every_minutes: float | None = None,
    init_from: str | Path | InitFrom | None = None,
    logger: str | Mapping[str, Any] | Logger | None = None,
    quiet: bool = False,
    **hyperparameters: Any,
) -> SweepResult:
    """Train every combination of hyperparameters with every seed, e.g.
    `sweep(ippo, config, lr=[1e-4, 3e-4], ent_coef=(1e-4, 1e-1, "log"), seeds=8)`.

    Fields of `config.hyperparams` can differ between the members of one program; each value of any other field (network
    width, number of environments …) makes a group, which is compiled and trained after the others. Every member learns
    the same as with `fit` alone, given its config and seed. A member that diverges is reported and affects no other.

    Args:
        algorithm: The module, e.g. `jaxrl.algos.ippo`.
        config: The algorithm's config, which supplies everything else.
        run_dir: A folder for sweep.json and a run folder per group, from which `jaxrl report` makes curves. If it holds
            the same sweep, unfinished, the sweep continues: finished groups are kept, an interrupted one continues from
            its newest checkpoint. None writes nothing.
        seeds: Their number, starting at `config.seed`, or a list.
        samples: Points to draw from the ranges, if there are any.
        max_members: Members to train at the same time, if a whole group does not fit in memory.
        mesh: See `fit`; it applies to each group, like the options below.
        log_every: Updates per row of metrics.
        eval_every: Updates between greedy evaluations.
        eval_episodes: Episodes per evaluation.
        checkpoint_every_updates: Updates between checkpoints; a group is always saved at its end.
        checkpoint_every_minutes: Minutes between checkpoints.
        init_from: See `fit`; all members start from one seed of that run.
        logger: See `fit`; it logs one group after another.
        quiet: Show no progress.
        **hyperparameters: Fields of the config: a list of values to try them all, `(low, high)` to draw uniformly, or
            `(low, high, "log")` to draw uniformly in the logarithm.

    Returns:
        The table. SIGTERM, Ctrl-C or SIGHUP ends it after saving; the same call with the same `run_dir` continues it.

    Raises:
        ValueError: A hyperparameter or one of its values is not known, or a number is wrong or has no effect.
        FileExistsError: `run_dir` holds something else or another sweep, or another process is training in it.
        CheckpointError: sweep.json or the end of a run cannot be saved; the same call saves it later.
    """
    check_module(algorithm, "sweep")
    _check_samples(samples, hyperparameters)
    chosen = chosen_seeds("seeds", seeds, config.seed)
    tried = points(config, hyperparameters, samples)
    groups = make_groups(config, tried, chosen, max_members, None if run_dir is None else Path(run_dir))
    intervals: dict[str, Any] = {
        "log_every": log_every,
        "eval_every": eval_every,
        "eval_episodes": eval_episodes,
        "checkpoint_every_updates": checkpoint_every_updates,
        "checkpoint_every_minutes": checkpoint_every_minutes,
    }
    start = InitFrom(init_from) if isinstance(init_from, str | Path) else init_from
    options = {**intervals, "init_from": start, "mesh": mesh, "logger": logger, "quiet": quiet}
    check_start(algorithm, groups, options)
    space = describe_space(read_space(config, hyperparameters))
    plan = {"space": space, "seeds": chosen, "samples": samples, "max_members": max_members, **intervals}
    plan |= {} if start is None else {"init_from": start.to_json()}
    with recorded(run_dir, "sweep", config, plan, len(chosen)) as record:
        return _train(algorithm, groups, list(hyperparameters), options, record)


def _check_samples(samples: int, hyperparameters: Mapping[str, Any]) -> None:
    """Raise ValueError if `samples` has no effect."""
    if samples != SAMPLES and not any(isinstance(values, tuple) for values in hyperparameters.values()):
        raise ValueError(
            f'samples={samples} has no effect without a range, such as lr=(1e-4, 1e-2, "log"); leave it out. More '
            f"members come from seeds."
        )


def _train(
    algorithm: ModuleType, groups: Sequence[MemberGroup], names: list[str], options: dict[str, Any], record: PlanFile
) -> SweepResult:
    """Train the groups one after another, and record the table as it grows."""
    if not options["quiet"]:
        print(f"Members: {sum(len(group.members) for group in groups)}, groups: {len(groups)}")

    def record_progress(table: list[Row]) -> None:
        record.note("running", table=_same_columns(table))

    table, stopped = train_groups(algorithm, groups, names, options, after=record_progress)
    table = _same_columns(table)
    (record.note if stopped else record.write)("stopped" if stopped else "finished", table=table)
    return SweepResult(table, record.path, stopped)


def _same_columns(table: list[Row]) -> list[Row]:
    """The rows, each with the columns of all: rows of a group in which every member diverged have no evaluation."""
    columns = dict.fromkeys(name for row in sorted(table, key=len, reverse=True) for name in row)
    return [{name: row.get(name) for name in columns} for row in table]
