"""The effect of each hyperparameter on the score, for the groups of a sweep and the trials of a search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl.report.collect import METRICS, SeedGroup
from jaxrl.train.folder.run_info import PLAN_FILES, read_checklist

__all__ = ["Effect", "Search", "effects", "searches"]


class Effect(NamedTuple):
    """The scores at each value of one hyperparameter, regardless of the others."""

    title: str
    name: str
    """The name of the hyperparameter."""
    metric: str
    points: list[tuple[Any, np.ndarray]]
    """For each configuration, its value of the hyperparameter and the scores of its seeds."""


class Search(NamedTuple):
    """A search whose test is one of the reported runs."""

    name: str
    """The name of the group."""
    checklist: dict[str, Any]


def searches(groups: Sequence[SeedGroup]) -> list[Search]:
    """The searches whose folders contain the runs."""
    found = {}
    for group in groups:
        for path in group.runs:
            file = path.parent / PLAN_FILES["search"]
            if file.is_file():
                found[file] = Search(group.name, read_checklist(file))
    return list(found.values())


def effects(groups: Sequence[SeedGroup]) -> list[Effect]:
    """The effects of all hyperparameters with several values, by algorithm and environment; empty for most reports."""
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
    """The finite scores; a diverged seed has null, or NaN in older files."""
    values = np.array(scores, np.float64)
    return values[np.isfinite(values)]


def _effects(title: str, metric: str, tried: Sequence[tuple[dict[str, Any], np.ndarray]]) -> list[Effect]:
    """An effect for each name that has several values."""
    names = dict.fromkeys(name for values, _ in tried for name in values)
    found = []
    for name in names:
        points = [(values[name], scores) for values, scores in tried if name in values and len(scores)]
        if name not in ("seed", "env") and len({json.dumps(value) for value, _ in points}) > 1:
            found.append(Effect(title, name, metric, points))
    return found
