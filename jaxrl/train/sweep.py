"""`sweep`: seeds times hyperparameters, side by side in as few programs as possible."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from jaxrl.train.checkpoint import Checkpoints
from jaxrl.train.curve import MissingExtraError
from jaxrl.train.fit import fit
from jaxrl.train.loop import DivergedError
from jaxrl.train.members import describe_member, traced_fields
from jaxrl.train.mesh import MeshShape, choose_mesh
from jaxrl.train.programs import Programs
from jaxrl.train.run_folder import RunFolder, config_to_json, describe_run
from jaxrl.train.schedule import Schedule
from jaxrl.train.search_space import Point, points

__all__ = ["SweepResult", "sweep"]


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """What a sweep has brought."""

    table: list[dict[str, Any]]
    """A row a member: its hyperparameters, `seed`, the numbers of the final greedy evaluation (None for one that has
    diverged) and `diverged`."""
    run_dir: Path | None
    """Where sweep.json and a run folder for each group are."""
    stopped: str | None
    """The signal that ended the sweep early; `table` has the groups that were finished."""

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


class _Group(NamedTuple):
    """Members that one program trains."""

    config: Any
    """With the hyperparameters that all of them have."""
    members: list[Point]
    """For each its seed and the hyperparameters it has of its own."""
    folder: RunFolder | None

    def like(self, other: _Group) -> bool:
        """Whether one program does for both."""
        return self.config == other.config and len(self.members) == len(other.members)

    def describe(self, names: Iterable[str]) -> str:
        """For example `16 members, hidden=(64, 64)`."""
        shared = {name: getattr(self.config, name) for name in names if name not in self.members[0]}
        return ", ".join([f"{len(self.members)} members", *([describe_member(shared)] if shared else [])])


def sweep(
    algorithm: ModuleType,
    config: Any,
    run_dir: str | Path | None = None,
    *,
    seeds: int | Sequence[int] = 1,
    samples: int = 8,
    max_members: int | None = None,
    mesh: MeshShape | None = None,
    log_every: int | None = None,
    eval_every: int | None = None,
    eval_episodes: int = 512,
    checkpoint_every_updates: int | None = None,
    checkpoint_every_minutes: float | None = None,
    quiet: bool = False,
    **hyperparameters: Any,
) -> SweepResult:
    """Train every combination of hyperparameters with every seed, e.g.
    `sweep(ippo, config, lr=[1e-4, 3e-4], ent_coef=(1e-4, 1e-1, "log"), seeds=8)`.

    Those that `config.hyperparams` holds differ between the members of one program; each value of another one (network
    width, number of environments …) makes a group, which is compiled and trained after the others. Every member learns
    what `fit` would teach it alone with its config and seed. One that diverges is named and harms no other.

    Args:
        algorithm: The module, e.g. `jaxrl.algos.ippo`.
        config: Its config, from which all else is taken.
        run_dir: For sweep.json and a run folder a group, of which `jaxrl report` makes curves. A folder that holds this
            very sweep, unfinished, is continued: finished groups are kept, an interrupted one goes on from its newest
            checkpoint. None writes nothing.
        seeds: So many, from `config.seed` on, or which ones.
        samples: Points to draw from the ranges, if there are any.
        max_members: Members to train at the same time, if memory does not suffice for all of a group.
        mesh: As in `fit`, for each group; as are the others.
        log_every: Updates in a row of metrics.
        eval_every: Updates between greedy evaluations.
        eval_episodes: Episodes in an evaluation.
        checkpoint_every_updates: Updates between checkpoints; a group is always saved at its end.
        checkpoint_every_minutes: Minutes between checkpoints.
        quiet: Show no progress.
        **hyperparameters: Fields of the config: a list of values to try them all, `(low, high)` to draw uniformly or
            `(low, high, "log")` uniformly in the logarithm.

    Returns:
        The table. SIGTERM and Ctrl-C end the sweep after saving; the same call with the same `run_dir` continues it.

    Raises:
        ValueError: An unknown hyperparameter, a value that the config refuses, a count that is not positive, or a
            `run_dir` with another sweep in it.
        FileExistsError: `run_dir` holds something else.
    """
    chosen = _chosen(config, seeds)
    tried = points(config, hyperparameters, samples)
    groups = _groups(config, tried, chosen, max_members, None if run_dir is None else Path(run_dir))
    options: dict[str, Any] = {
        "log_every": log_every,
        "eval_every": eval_every,
        "eval_episodes": eval_episodes,
        "checkpoint_every_updates": checkpoint_every_updates,
        "checkpoint_every_minutes": checkpoint_every_minutes,
    }
    _check(groups, options, mesh)
    plan = {"space": hyperparameters, "seeds": chosen, "samples": samples, "max_members": max_members, **options}
    record = _Record(run_dir, config, plan)
    say = (lambda _: None) if quiet else print
    say(f"Points: {len(tried)}, seeds: {len(chosen)}, members: {len(tried) * len(chosen)}, groups: {len(groups)}")

    table: list[dict[str, Any]] = []
    stopped = programs = None
    for number, group in enumerate(groups):
        say(f"Group {number + 1} of {len(groups)}: {group.describe(hyperparameters)}")
        shared = programs if number and group.like(groups[number - 1]) else None
        outcome = _train(algorithm, group, shared, {**options, "mesh": mesh, "quiet": quiet})
        stopped = outcome.stopped
        if stopped:
            break
        programs = outcome.programs or shared
        table += _rows(hyperparameters, group, outcome)
        record.write("running", table)
    record.write("stopped" if stopped else "finished", table)
    return SweepResult(_same_columns(table), record.path, stopped)


class _Outcome(NamedTuple):
    """What a group has brought."""

    evaluation: dict[str, Any] | None
    diverged: list[int]
    stopped: str | None = None
    programs: Programs | None = None


def _train(algorithm: ModuleType, group: _Group, programs: Programs | None, options: dict[str, Any]) -> _Outcome:
    """Train a group, or what is left of it."""
    resume = False
    if group.folder is not None and (group.folder.path / "run.json").is_file():
        about = group.folder.read()
        if about["status"] in ("finished", "diverged"):
            return _Outcome(about.get("evaluation"), about["diverged"])
        resume = bool(Checkpoints(group.folder.checkpoints).updates)
        if not resume:
            print(f"{group.folder.path} was interrupted before its first checkpoint; it begins anew.")
            shutil.rmtree(group.folder.path)
    path = None if group.folder is None else group.folder.path
    try:
        result = fit(
            algorithm.make(group.config),
            group.config,
            path,
            members=group.members,
            programs=programs,
            resume=resume,
            pictures=False,
            **options,
        )
    except DivergedError as error:
        print(f"{error} No member of this group is left.")
        return _Outcome(None, list(range(len(group.members))))
    return _Outcome(result.evaluation, result.diverged, result.stopped, result.programs)


def _rows(names: Iterable[str], group: _Group, outcome: _Outcome) -> list[dict[str, Any]]:
    """The part of the table that a group makes."""
    rows = []
    for m, own in enumerate(group.members):
        row = {name: own[name] if name in own else getattr(group.config, name) for name in names}
        row["seed"] = own["seed"]
        for name, value in (outcome.evaluation or {}).items():
            value = value[m] if isinstance(value, list) else value
            row[name] = None if m in outcome.diverged else value
        rows.append({**row, "diverged": m in outcome.diverged})
    return rows


def _same_columns(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every row with the columns of all: those of a group that has diverged as a whole know no evaluation."""
    columns = dict.fromkeys(name for row in sorted(table, key=len, reverse=True) for name in row)
    return [{name: row.get(name) for name in columns} for row in table]


def _chosen(config: Any, seeds: int | Sequence[int]) -> list[int]:
    """The seeds, one by one."""
    chosen = [config.seed + i for i in range(seeds)] if isinstance(seeds, int) else list(seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds must be a number of at least 1 or a list of different ones, got {seeds}.")
    return chosen


def _check(groups: list[_Group], options: dict[str, Any], mesh: MeshShape | None) -> None:
    """Raise now what `fit` would, before anything is written and an hour has passed."""
    if options["eval_episodes"] < 1:
        raise ValueError(f"eval_episodes must be at least 1, got {options['eval_episodes']}.")
    times = {name: value for name, value in options.items() if name != "eval_episodes"}
    for group in groups:
        Schedule(group.config.num_updates, **times)
        group.config.make_env()
        choose_mesh(group.config, len(group.members), mesh)


def _groups(
    config: Any, tried: list[Point], seeds: list[int], max_members: int | None, path: Path | None
) -> list[_Group]:
    """All members, by what needs a program of its own and then in parts of about the same size."""
    if max_members is not None and max_members < 1:
        raise ValueError(f"max_members must be at least 1, got {max_members}.")
    traced = traced_fields(config)
    alike: dict[str, tuple[Any, list[Point]]] = {}
    for point in tried:
        statics = {name: value for name, value in point.items() if name not in traced}
        own = {name: value for name, value in point.items() if name in traced}
        _, members = alike.setdefault(repr(statics), (dataclasses.replace(config, **statics), []))
        members += [{"seed": seed, **own} for seed in seeds]
    groups = []
    for common, members in alike.values():
        parts = -(-len(members) // (max_members or len(members)))
        size = -(-len(members) // parts)
        for start in range(0, len(members), size):
            folder = None if path is None else RunFolder(path / f"group-{len(groups):03d}")
            groups.append(_Group(common, members[start : start + size], folder))
    return groups


class _Record:
    """The file sweep.json: what was asked for, how far it is, and the table.

    Args:
        path: The sweep's folder; None writes nothing.
        config: Of the sweep.
        plan: What else decides its outcome.
    """

    def __init__(self, path: str | Path | None, config: Any, plan: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self._about: dict[str, Any] = {}
        if self.path is None:
            return
        self._file = self.path / "sweep.json"
        plan = json.loads(json.dumps(plan))
        self._about = describe_run(config, len(plan["seeds"])) | {"plan": plan}
        if not self._file.is_file():
            RunFolder.create(self.path)
            self.write("running", [])
            return
        before = json.loads(self._file.read_text())
        asked = {"config": config_to_json(config), "algorithm": self._about["algorithm"], **plan}
        had = {"config": before["config"], "algorithm": before["algorithm"], **before["plan"]}
        differing = [name for name in asked if asked[name] != had.get(name)]
        if differing:
            raise ValueError(
                f"{self.path} holds a sweep with another {', '.join(differing)}; repeat that one to continue it, or "
                f"name another folder."
            )

    def write(self, status: str, table: list[dict[str, Any]]) -> None:
        """Replace the file in one go."""
        if self.path is not None:
            new = self._file.with_suffix(".new")
            content = {**self._about, "status": status, "table": _same_columns(table)}
            new.write_text(json.dumps(content, indent=2) + "\n")
            os.replace(new, self._file)
