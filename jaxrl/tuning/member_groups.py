"""Points times seeds in as few programs as possible: members that one program can train form a group."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from jaxrl.config import as_seed, as_whole, settled, typed
from jaxrl.errors import DivergedError
from jaxrl.train.devices.mesh import choose_mesh
from jaxrl.train.fit import fit
from jaxrl.train.folder.continuation import Stage, decide
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.same_run import wanted
from jaxrl.train.intervals import Intervals
from jaxrl.train.members import Members, describe_member, traced_fields
from jaxrl.train.metrics import columns, flat_row, metric_of
from jaxrl.train.programs import Programs
from jaxrl.train.run import SearchRun
from jaxrl.train.signals import StopRequest
from jaxrl.train.start import Start
from jaxrl.tuning.search_space import Point

__all__ = [
    "MemberGroup",
    "Row",
    "check_groups",
    "check_start",
    "chosen_seeds",
    "curve_means",
    "make_groups",
    "train_groups",
]

Row = dict[str, Any]
"""A row of a table: a member's hyperparameters, its seed, its final greedy evaluation, `curve_mean` (its win rate, or
otherwise its return, averaged over all of training) and whether it diverged."""


class MemberGroup(NamedTuple):
    """Members that one program trains."""

    config: Any
    """The config, with the hyperparameters that all members share."""
    members: list[Point]
    """The seed of each member and the hyperparameters that distinguish it."""
    folder: RunFolder | None

    def like(self, other: MemberGroup) -> bool:
        """True if one program can train both groups."""
        return self.config == other.config and len(self.members) == len(other.members)

    def describe(self, names: Iterable[str]) -> str:
        """A description of the group, for example `16 members, hidden=(64, 64)`."""
        shared = {name: getattr(self.config, name) for name in names if name not in self.members[0]}
        return ", ".join([f"{len(self.members)} members", *([describe_member(shared)] if shared else [])])


def make_groups(
    config: Any, tried: Sequence[Point], seeds: Sequence[int], max_members: int | None, path: Path | None
) -> list[MemberGroup]:
    """Group all members by the program that they need, and split large groups into parts of about equal size.

    Args:
        config: The config that supplies everything else.
        tried: The points.
        seeds: The seeds to train each point with.
        max_members: The most members in a group.
        path: The parent of the groups' folders; None for no folders.
    """
    max_members = None if max_members is None else as_whole("max_members", max_members)
    traced = traced_fields(config)
    alike: dict[str, tuple[Any, list[Point]]] = {}
    for point in tried:
        statics = {name: value for name, value in point.items() if name not in traced}
        own = {name: value for name, value in point.items() if name in traced}
        _, members = alike.setdefault(
            repr(statics), (settled(dataclasses.replace(config, **statics), statics, statics), [])
        )
        members += [{"seed": seed, **own} for seed in seeds]
    groups = []
    for common, members in alike.values():
        parts = -(-len(members) // (max_members or len(members)))
        size = -(-len(members) // parts)
        for start in range(0, len(members), size):
            folder = None if path is None else RunFolder(path / f"group-{len(groups):03d}")
            groups.append(MemberGroup(common, members[start : start + size], folder))
    return groups


def check_groups(groups: Sequence[MemberGroup], options: dict[str, Any]) -> None:
    """Raise the errors that `fit` would raise with these options, before anything is written or time is spent."""
    as_whole("eval_episodes", options["eval_episodes"])
    names = [field.name for field in dataclasses.fields(Intervals) if field.name in options]
    for group in groups:
        if hasattr(group.config, "check_sweepable"):
            group.config.check_sweepable()
        Intervals(group.config.num_updates, **{name: options[name] for name in names})
        group.config.make_env()
        choose_mesh(group.config, len(group.members), options["mesh"])


def check_start(algorithm: ModuleType, groups: Sequence[MemberGroup], options: dict[str, Any]) -> None:
    """`check_groups`, and the run to start from as well, for the groups that have not begun."""
    check_groups(groups, options)
    for group in groups:
        if options["init_from"] is not None and (group.folder is None or not group.folder.path.exists()):
            members = Members.of(group.config, group.members)
            Start(algorithm.make(group.config), group.config, members, options["init_from"], alike=False).check()


def train_groups(
    algorithm: ModuleType,
    groups: Sequence[MemberGroup],
    names: Iterable[str],
    options: dict[str, Any],
    after: Callable[[list[Row]], None] = lambda table: None,
) -> tuple[list[Row], str | None]:
    """Train one group after another.

    Args:
        algorithm: The module.
        groups: Groups whose folders show that they are finished are kept, and interrupted ones continue. This process
            must hold the lock of the parent folder, see `recorded`.
        names: The names of the hyperparameters, which are the first columns of the table.
        options: Options for `fit`.
        after: Called with the table so far whenever a group ends.

    Returns:
        The table, and the name of the signal that ended training early, if one did.
    """
    table: list[Row] = []
    programs = None
    with StopRequest() as stop:
        for number, group in enumerate(groups):
            if not options["quiet"]:
                print(f"Group {number + 1} of {len(groups)}: {group.describe(names)}")
            shared = programs if number and group.like(groups[number - 1]) else None
            outcome = _train(algorithm, group, shared, options)
            if outcome.stopped:
                return table, outcome.stopped
            programs = outcome.programs or shared
            table += _rows(names, group, outcome)
            after(table)
            if stop:
                return table, stop.name
    return table, None


def chosen_seeds(name: str, seeds: int | Sequence[int], first: int) -> list[int]:
    """The seeds as a list: that many starting at `first`, or the ones listed."""
    listed = isinstance(seeds, Iterable)
    chosen = list(seeds) if listed else [first + i for i in range(typed(name, int, seeds))]
    chosen = [as_seed(f"{name}: each", seed) for seed in chosen]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"{name} must be a number of at least 1 or a list of different ones, got {seeds}.")
    return chosen


def curve_means(metrics: Mapping[str, np.ndarray], members: int) -> list[float | None]:
    """The mean of each member's learning curve; None if no episode ended.

    Args:
        metrics: The columns of metrics.jsonl.
        members: M.
    """
    curves = metrics.get(metric_of(metrics), np.zeros((0, members))).reshape(-1, members)
    return [float(curve[np.isfinite(curve)].mean()) if np.isfinite(curve).any() else None for curve in curves.T]


class _Outcome(NamedTuple):
    """The result of a group."""

    evaluation: dict[str, Any] | None
    curve_means: list[float | None]
    diverged: list[int]
    stopped: str | None = None
    programs: Programs | None = None


def _train(algorithm: ModuleType, group: MemberGroup, programs: Programs | None, options: dict[str, Any]) -> _Outcome:
    """Train a group, or the rest of it."""
    if group.folder is not None:  # a group that has come to its end is read, and not trained again
        deciding = {name: value for name, value in options.items() if name != "search"}
        stage = decide(group.folder, group.config, wanted(group.config, group.members, deciding))
        if stage in (Stage.FINISHED, Stage.DIVERGED):
            about = group.folder.read()
            means = curve_means(columns(group.folder.metrics.read()), len(group.members))
            return _Outcome(about.get("evaluation"), means, about["diverged"])
    path = None if group.folder is None else group.folder.path
    search: SearchRun = options.get("search", SearchRun())
    options = {**options, "search": search._replace(programs=programs)}
    try:
        result = fit(
            algorithm.make(group.config),
            group.config,
            path,
            members=group.members,
            resume="auto",
            pictures=False,
            **options,
        )
    except DivergedError as error:
        print(f"{error} No member of this group is left.")
        everyone = range(len(group.members))
        return _Outcome(None, [None for _ in everyone], list(everyone))
    means = curve_means(result.metrics, len(group.members))
    return _Outcome(result.evaluation, means, result.diverged, result.stopped, result.programs)


def _rows(names: Iterable[str], group: MemberGroup, outcome: _Outcome) -> list[Row]:
    """A group's rows of the table."""
    rows = []
    for m, own in enumerate(group.members):
        row = {name: own[name] if name in own else getattr(group.config, name) for name in names}
        row["seed"] = own["seed"]
        for name, value in flat_row(outcome.evaluation or {}).items():
            value = value[m] if isinstance(value, list) else value
            row[name] = None if m in outcome.diverged else value
        diverged = m in outcome.diverged
        rows.append({**row, "curve_mean": None if diverged else outcome.curve_means[m], "diverged": diverged})
    return rows
