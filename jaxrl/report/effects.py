"""What each hyperparameter does to the score: of the groups of a sweep, and of the trials of a search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl.report.collect import METRICS, SeedGroup
from jaxrl.train.folder.run_info import read_checklist

__all__ = ["Effect", "Search", "effects", "searches"]


class Effect(NamedTuple):
    """The scores at each value of one hyperparameter, whatever the others were."""

    title: str
    name: str
    """Of the hyperparameter."""
    metric: str
    points: list[tuple[Any, np.ndarray]]
    """A value and the scores of the seeds that were trained with it, for each configuration."""


class Search(NamedTuple):
    """The search that a reported run is the test of."""

    name: str
    """Of the group."""
    checklist: dict[str, Any]


def searches(groups: Sequence[SeedGroup]) -> list[Search]:
    """The searches in whose folders the runs lie."""
    found = {}
    for group in groups:
        for path in group.runs:
            file = path.parent / "checklist.json"
            if file.is_file():
                found[file] = Search(group.name, read_checklist(file))
    return list(found.values())


def effects(groups: Sequence[SeedGroup]) -> list[Effect]:
    """For each algorithm and environment the hyperparameters that had more than one value; nothing for most reports."""
    found = []
    families = dict.fromkeys((group.algorithm, group.env) for group in groups)
    for algorithm, env in families:
        family = [g for g in groups if (g.algorithm, g.env) == (algorithm, env) and len(g.scores)]
        tried = [({**next(iter(g.runs.values()))["config"]}, g.scores) for g in family]
        metric = METRICS[family[0].metric] if family else ""
        found += _effects(f"{algorithm} on {env}", metric, tried)
    for name, checklist in searches(groups):
        last = {json.dumps(trial["point"]): trial for trial in checklist.get("trials", ())}  # halving: the longest
        tried = [(t["point"], _finite(t["scores"])) for t in last.values()]
        metric = "win rate" if "win_rate" in (checklist.get("test") or {}) else "return"
        found += _effects(f"{name}: the search, tuning seeds", metric, tried)
    return found


def _finite(scores: Sequence[float | None]) -> np.ndarray:
    """Those that are numbers; a seed that diverged has null, or NaN in older files."""
    values = np.array(scores, np.float64)
    return values[np.isfinite(values)]


def _effects(title: str, metric: str, tried: Sequence[tuple[dict[str, Any], np.ndarray]]) -> list[Effect]:
    """An effect for each name with several values."""
    names = dict.fromkeys(name for values, _ in tried for name in values)
    found = []
    for name in names:
        points = [(values[name], scores) for values, scores in tried if name in values and len(scores)]
        if name not in ("seed", "env") and len({json.dumps(value) for value, _ in points}) > 1:
            found.append(Effect(title, name, metric, points))
    return found
