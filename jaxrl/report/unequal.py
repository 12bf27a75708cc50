"""Differences that make a comparison of runs unfair: training length, evaluation, software."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl.report.collect import Member, SeedGroup
from jaxrl.train.folder.sources import hashes
from jaxrl.train.pictures.curve import short

__all__ = ["unequal"]

_SLACK = 1.05  # of steps: algorithms round them to whole updates

_Runs = Mapping[Path, Mapping[str, Any]]  # the content of run.json by folder


def unequal(groups: Sequence[SeedGroup]) -> list[str]:
    """For each environment, a sentence about everything that its runs should have in common but do not.

    The checks cover the steps trained, and whether a run was made longer on the way, the episodes of the final
    evaluation, `on_nan`, the versions of packages, the git commit, and an environment in a file of one's own. Values
    missing from a run.json are not compared.
    """
    found = []
    for env in dict.fromkeys(group.env for group in groups):
        here = [group for group in groups if group.env == env]
        runs = {path: about for group in here for path, about in group.runs.items()}
        lengths = _steps(here), _lengthened(runs)
        sentences = (*lengths, _episodes(runs), _on_nan(runs), _versions(runs), _commits(runs), _file(runs))
        found += [f"On {env}, {sentence}" for sentence in sentences if sentence]
    return found


def _steps(groups: Sequence[SeedGroup]) -> str:
    """A sentence about unequal steps, among the members that have a score."""
    scored = [(int(m.timesteps[-1]), group.label, m.run) for group in groups for m in group.members if _counts(m)]
    if not scored:
        return ""
    (few, least, first), (many, most, last) = min(scored), max(scored)
    if many <= _SLACK * few:
        return ""
    return (
        f"{least} was trained for {short(few)} steps ({first}) but {most} for {short(many)} ({last}): compare them "
        f"after the same --total-timesteps."
    )


def _counts(member: Member) -> bool:
    return math.isfinite(member.score) and len(member.timesteps) > 0


def _lengthened(runs: _Runs) -> str:
    def when(about: Mapping[str, Any]) -> str:
        steps = [earlier.get("timesteps", 0) for earlier in about.get("lengthened") or ()]
        return " and ".join(f"after {short(each)} steps" for each in steps if each) or "never"

    values = _by_value(runs, when)
    what = "some runs were made longer on the way, after which schedules take another course"
    cure = "train each with all of its --total-timesteps from the beginning"
    return f"{what}, {_told(values)}: {cure}." if len(values) > 1 else ""


def _episodes(runs: _Runs) -> str:
    def episodes(about: Mapping[str, Any]) -> int | None:
        planned = (about.get("options") or {}).get("eval_episodes")
        return (about.get("evaluation") or {}).get("episodes", planned)

    values = _by_value(runs, episodes)
    what = "scores are of different numbers of episodes"
    return f"{what}, {_told(values)}: train with the same --eval-episodes." if len(values) > 1 else ""


def _on_nan(runs: _Runs) -> str:
    values = _by_value(runs, lambda about: (about.get("options") or {}).get("on_nan"))
    what = "runs were trained with different --on-nan"
    return f"{what}, {_told(values)}: one goes on where the other ends, so choose one." if len(values) > 1 else ""


def _versions(runs: _Runs) -> str:
    packages = dict.fromkeys(name for about in runs.values() for name in about.get("versions") or ())
    parts = []
    for package in packages:
        values = _by_value(runs, lambda about, name=package: (about.get("versions") or {}).get(name))
        if len(values) > 1:
            parts.append(f"{package} {_told(values)}")
    return f"runs were made with different versions, {'; '.join(parts)}: run them again with one." if parts else ""


def _commits(runs: _Runs) -> str:
    values = _by_value(runs, lambda about: ((about.get("git") or {}).get("commit") or "")[:10])
    what = "runs were made at different git commits"
    return f"{what}, {_told(values)}: run them again at one." if len(values) > 1 else ""


def _file(runs: _Runs) -> str:
    def content(about: Mapping[str, Any]) -> str:
        source = about.get("sources", {}).get("env")
        return "+".join(sha256[:8] for sha256 in hashes(source).values()) if source else ""

    values = _by_value(runs, content)
    what = "the file of the environment has changed from run to run"
    return f"{what}, {_told(values)}: run them again with one." if len(values) > 1 else ""


def _by_value(runs: _Runs, of: Callable[[Mapping[str, Any]], Any]) -> dict[Any, list[Path]]:
    """The runs by the value that `of` finds in their run.json, if it finds any."""
    found: dict[Any, list[Path]] = {}
    for path, about in runs.items():
        if value := of(about):
            found.setdefault(value, []).append(path)
    return found


def _told(values: Mapping[Any, Sequence[Path]]) -> str:
    """The values, each with one of its runs: `64 (runs/a), 512 (runs/b and 3 more)`."""
    parts = []
    for value, paths in values.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        parts.append(f"{value} ({paths[0]}{more})")
    return ", ".join(parts)
