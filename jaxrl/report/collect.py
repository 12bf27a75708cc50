"""Reads run folders and groups them: runs that differ only in their seeds form one group."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl import stats
from jaxrl.errors import printable
from jaxrl.registry import shown_name
from jaxrl.train.folder.json_lines import JsonLines, check_members
from jaxrl.train.folder.run_folder import RunFolder
from jaxrl.train.folder.run_info import plan_in
from jaxrl.train.folder.sources import hashes
from jaxrl.train.members import roles_in
from jaxrl.train.metrics import columns, flat_row, own_metrics
from jaxrl.train.pictures import smooth
from jaxrl.wrappers.players import member_named

__all__ = ["METRICS", "Member", "SeedGroup", "collect", "runs_of_sweep"]

METRICS = {"win_rate": "win rate", "return_mean": "return", "length_mean": "episode length"}
"""Metrics of all runs, in words; beside them, runs have `info/NAME` for each number of their `log_info`."""
_POINTS = 120  # of a group's curve
_NAMED = 3  # the most differing options that a label lists; with more, it names the run
_REPEATS = 1000  # of the bootstrap at each point of a curve


@dataclasses.dataclass(frozen=True)
class Member:
    """One seed of a run, or all members of one role in a league: they depend on each other, so they count as one."""

    run: Path
    """The run's folder; several members may share it."""
    numbers: tuple[int, ...]
    """The indices among the members of the run; several in a league, of which the rest is the mean."""
    seed: int
    """In a league, that of its first member."""
    timesteps: np.ndarray
    """`[R]`, environment steps at each row of metrics.jsonl."""
    seconds: np.ndarray
    """`[R]`, seconds of training at each row, shared by seeds that are trained side by side."""
    values: np.ndarray
    """`[R]`, the metric during training; NaN where no episode ended."""
    score: float
    """The metric in the final greedy evaluation; NaN if there was none, or if it has diverged."""
    played: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """The greedy evaluations on the way and at the end: `timesteps`, `seconds` and `values`, `[E]` each."""


@dataclasses.dataclass(frozen=True)
class SeedGroup:
    """The seeds of one algorithm with one configuration on one environment."""

    label: str
    """The algorithm, with the options in which it differs from others on the same environment."""
    algorithm: str
    env: str
    metric: str
    """One of `METRICS` or an own one; the same for all groups on an environment."""
    members: tuple[Member, ...]
    runs: dict[Path, dict[str, Any]]
    """The content of run.json by folder."""

    @property
    def measure(self) -> str:
        """The metric in words."""
        return METRICS.get(self.metric, self.metric)

    @property
    def name(self) -> str:
        """The label and the environment."""
        return f"{self.label} on {self.env}"

    @property
    def role(self) -> str | None:
        """The role of its members in their league; None if they are not in one."""
        return next(iter(self.runs.values())).get("role")

    @property
    def exploits(self) -> bool:
        """True for the exploiters of a league, whose task is another one than that of all other groups."""
        return self.role == "exploiter"

    @property
    def seeds(self) -> list[int]:
        """The seeds of all members, sorted."""
        return sorted(member.seed for member in self.members)

    @property
    def scores(self) -> np.ndarray:
        """`[S]`, the scores of the members that have one."""
        scores = np.array([member.score for member in self.members])
        return scores[np.isfinite(scores)]

    def curve(self, axis: str) -> tuple[np.ndarray, stats.Interval] | None:
        """The interquartile mean over members during training, with its interval.

        Args:
            axis: `"timesteps"` or `"seconds"`.

        Returns:
            `x[P]` and an interval of arrays `[P]`, over the range that all members cover; None if one has no data.
        """
        lines = [known(member, axis) for member in self.members]
        if any(len(x) == 0 for x, _ in lines):
            return None
        start, end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
        grid = np.linspace(start, end, _POINTS) if end > start else np.array([end])
        values = np.stack([np.interp(grid, x, y) for x, y in lines], axis=-1)
        return grid, stats.interval(stats.iqm, values[:, :, None], repeats=_REPEATS, expand=True)


def known(member: Member, axis: str) -> tuple[np.ndarray, np.ndarray]:
    """A member's smoothed curve, `x[P]` and `y[P]`, without rows in which no episode ended."""
    y = smooth(member.values)
    finite = np.isfinite(y)
    return getattr(member, axis)[finite], y[finite]


class _Part(NamedTuple):
    """The members of a run with one configuration: all of them, unless the run belongs to a sweep or is a league."""

    folder: RunFolder
    about: dict[str, Any]
    """The content of run.json, with the configuration of these members, and in a league with their `role`."""
    seeds: dict[tuple[int, ...], int]
    """The seed of each member, or of the members that count as one."""
    name: str
    """The name of the folder; with several configurations in it, numbered."""


def collect(paths: Sequence[str | Path], metric: str | None = None) -> list[SeedGroup]:
    """Read runs and group them, ordered by environment and label.

    Args:
        paths: Run folders with one or several seeds each, folders of sweeps, which hold run folders, and folders of
            searches, of which only the test counts.
        metric: One of `METRICS`, or a number of `log_info`, such as `info/distance` or `distance`; None for
            the win rate if every run on an environment has one, otherwise the return.

    Raises:
        FileNotFoundError: A folder holds no run, or none yet.
        ValueError: No folder is given, or one is given twice or with the index of a seed, or a run has no `metric`.
    """
    if not paths:
        raise ValueError("Name at least one run folder.")
    for path in paths:
        folder, index = member_named(path)
        if index is not None:
            raise ValueError(f"A report takes all seeds of {folder}; leave out :{index}.")
    folders = [RunFolder.open(run) for path in paths for run in _runs_in(Path(path))]
    resolved = [folder.path.resolve() for folder in folders]
    for path, folder in zip(resolved, folders, strict=True):
        if resolved.count(path) > 1:
            raise ValueError(f"{folder.path} is named twice; its seeds would count double.")
    parts = [part for folder in folders for part in _parts(folder, folder.read())]
    groups = []
    for env in sorted({shown_name(part.about["env"]) for part in parts}):
        groups += _groups_on(env, [part for part in parts if shown_name(part.about["env"]) == env], metric)
    return groups


def _runs_in(path: Path) -> list[Path]:
    """The run folders in a sweep's folder, or the test of a search; any other folder is itself a run folder."""
    plan = plan_in(path)
    if plan == "search":
        if not (path / "test" / "run.json").is_file():
            raise FileNotFoundError(f"The search in {path} has not come to its test yet: let it end, or continue it.")
        return [path / "test"]
    if plan is None:
        return [path]
    runs = runs_of_sweep(path)
    if not runs:
        raise FileNotFoundError(f"The sweep in {path} has no run yet: let it begin, or continue it.")
    return runs


def runs_of_sweep(path: Path) -> list[Path]:
    """The run folders in a sweep's folder."""
    return sorted(run.parent for run in path.glob("*/run.json"))


def _parts(folder: RunFolder, about: dict[str, Any]) -> list[_Part]:
    """A run, split by the configurations of its members, and by their roles in a league."""
    members = about.get("members") or [{"seed": about["seed"] + m} for m in range(about["num_seeds"])]
    seeds = [own.get("seed", about["seed"]) for own in members]
    roles = roles_in(about["config"].get("league"), len(members))
    alike: dict[str, list[int]] = {}
    for m, own in enumerate(members):
        own = {name: value for name, value in own.items() if name != "seed"}
        alike.setdefault(json.dumps([own, {"role": roles[m]} if roles else {}]), []).append(m)
    parts = []
    for number, (key, numbers) in enumerate(alike.items()):
        own, role = json.loads(key)
        name = folder.path.name + (f" #{number}" if len(alike) > 1 else "")
        counted = {tuple(numbers): seeds[0]} if roles else {(m,): seeds[m] for m in numbers}
        parts.append(_Part(folder, {**about, **role, "config": {**about["config"], **own}}, counted, name))
    return parts


def _groups_on(env: str, parts: list[_Part], metric: str | None) -> list[SeedGroup]:
    """The groups of all runs on one environment."""
    tables = {part.folder.path: _table(part) for part in parts}
    metric = _metric(parts, tables, metric)
    alike: dict[tuple[str, str], list[_Part]] = {}
    for part in parts:
        key = part.about["algorithm"], json.dumps(_options(part.about), sort_keys=True)
        alike.setdefault(key, []).append(part)
    groups = []
    for (algorithm, _), group in alike.items():
        others = [part.about for part in parts if part.about["algorithm"] == algorithm]
        members = [m for part in group for m in _members(part, tables[part.folder.path], metric)]
        label = _label(group[0], others)
        abouts = {part.folder.path: part.about for part in group}
        label, shown, where = map(printable, (label, algorithm, env))
        groups.append(SeedGroup(label, shown, where, metric, tuple(members), abouts))
    return sorted(map(partial(_unlike, groups), groups), key=lambda group: group.label)


def _unlike(groups: list[SeedGroup], group: SeedGroup) -> SeedGroup:
    """The group, with its folder in the label if another one has the same."""
    if [other.label for other in groups].count(group.label) == 1:
        return group
    return dataclasses.replace(group, label=printable(f"{group.label}, {next(iter(group.runs))}"))


def _table(part: _Part) -> dict[str, np.ndarray]:
    """The columns of metrics.jsonl."""
    return columns(_rows_of(part, part.folder.metrics))


def _rows_of(part: _Part, file: JsonLines) -> list[dict[str, Any]]:
    """The rows of a file of the run, which have numbers for all of its members."""
    rows = file.read()
    check_members(file.path, rows, part.about["num_seeds"])
    return rows


def _metric(parts: list[_Part], tables: dict[Path, dict[str, np.ndarray]], wanted: str | None) -> str:
    """The metric that all runs have; runs without data do not count."""

    def ignorant(metric: str) -> list[Path]:
        paths = [part.folder.path for part in parts]
        evaluations = [flat_row(part.about.get("evaluation") or {}) for part in parts]
        written = [(path, (tables[path], played)) for path, played in zip(paths, evaluations, strict=True)]
        return [path for path, sources in written if any(source and metric not in source for source in sources)]

    if wanted is None:
        return "return_mean" if ignorant("win_rate") else "win_rate"
    known = (*METRICS, *own_metrics({name for table in tables.values() for name in table}))
    wanted = wanted if wanted in known else f"info/{wanted.removeprefix('info/')}"
    if wanted not in known:
        raise ValueError(f"There is no metric {wanted[5:]!r}; it is one of {', '.join(known)}.")
    if missing := ignorant(wanted):
        raise ValueError(f"{missing[0]} knows no {wanted}; name another --metric, e.g. return_mean.")
    return wanted


def _members(part: _Part, table: dict[str, np.ndarray], metric: str) -> list[Member]:
    """The seeds of one part; a league, whose members depend on each other, is one."""
    count = part.about["num_seeds"]
    nothing = np.zeros(0)
    values = table.get(metric, np.zeros((0, count))).reshape(-1, count)
    evaluation = flat_row(part.about.get("evaluation") or {})
    scores = np.atleast_1d(np.array(evaluation.get(metric, [None] * count), np.float64))
    played = columns([row for row in _rows_of(part, part.folder.evaluations) if metric in flat_row(row)])
    # A member that diverged has numbers, but they are no score.
    scores = np.where(np.isin(np.arange(count), part.about.get("diverged") or []), np.nan, scores)
    return [
        Member(
            part.folder.path,
            numbers,
            seed,
            table.get("timesteps", nothing),
            table.get("seconds", nothing),
            values[:, list(numbers)].mean(1),
            float(scores[list(numbers)].mean()),
            {
                "timesteps": played.get("timesteps", nothing),
                "seconds": played.get("seconds", nothing),
                "values": played.get(metric, nothing).reshape(-1, count)[:, list(numbers)].mean(1),
            },
        )
        for numbers, seed in part.seeds.items()
    ]


def _options(about: dict[str, Any]) -> dict[str, Any]:
    """The shared options of a group: the configuration without seed and environment, own code, and the start."""
    options = {name: value for name, value in about["config"].items() if name not in ("seed", "env")}
    for source in about.get("sources", {}).values():
        options |= {name: sha256[:8] for name, sha256 in hashes(source).items()}
    start = (about.get("options") or {}).get("init_from") or {}
    options |= {"init_from" if name == "run" else f"init_{name}": value for name, value in start.items()}
    if "lineage" in about:
        options["lineage"] = hashlib.sha256(json.dumps(about["lineage"]).encode()).hexdigest()[:8]
    return options | {name: about[name] for name in ("initial_state", "loss", "role") if name in about}


def _label(part: _Part, others: list[dict[str, Any]]) -> str:
    """The algorithm and, if it was run with several configurations, the options that distinguish this one."""
    algorithm = part.about["algorithm"]
    options = [_options(other) for other in others]
    names = sorted({name for other in options for name in other})
    differing = [name for name in names if len({json.dumps(other.get(name)) for other in options}) > 1]
    if not differing:
        return algorithm
    if len(differing) > _NAMED:
        return f"{algorithm} ({part.name})"
    own = _options(part.about)
    values = (_plain(own.get(name), [other.get(name) for other in options]) for name in differing)
    return f"{algorithm} ({', '.join(f'{n}={value}' for n, value in zip(differing, values, strict=True))})"


def _plain(value: Any, others: Sequence[Any]) -> str:
    """The value as text, shortened unless that would make it the same as one of the others."""
    short = f"{value:.4g}" if isinstance(value, float) else str(value)
    same = [other for other in others if isinstance(other, float) and other != value and f"{other:.4g}" == short]
    return str(value) if same else short
