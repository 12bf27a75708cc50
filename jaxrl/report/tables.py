"""The numbers of a report: final scores with intervals, as Markdown and as CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl import stats
from jaxrl.report.collect import METRICS, SeedGroup
from jaxrl.train.pictures.curve import short

__all__ = [
    "Improvement",
    "Summary",
    "across",
    "between",
    "csv_table",
    "improvements",
    "markdown",
    "number",
    "speed",
    "summarise",
]


@dataclasses.dataclass(frozen=True)
class Summary:
    """A group's final greedy evaluations: one line of the table."""

    env: str
    algorithm: str
    """The group's label."""
    metric: str
    seeds: int
    """How many have a score."""
    iqm: float
    low: float
    """Of the 95 % stratified bootstrap interval, expanded for few seeds; NaN for one seed."""
    high: float
    mean: float
    std: float
    """Of a sample: the squares are divided by the number of seeds less one."""
    min: float
    max: float
    timesteps: int
    """Environment steps of one seed, the most of them."""
    train_seconds: float
    """The mean over runs."""
    steps_per_second: float
    """Of all seeds of a run together, the mean over runs."""


def summarise(groups: Sequence[SeedGroup]) -> list[Summary]:
    """A `Summary` for each group; all of its numbers are NaN where no seed has a score."""
    return [_summary(group) for group in groups]


class Improvement(NamedTuple):
    """The best group on an environment beside another one."""

    best: SeedGroup
    other: SeedGroup
    chance: float
    """The probability that a run of the best beats one of the other."""
    difference: stats.Interval
    """Of the mean scores. The bounds hold for all pairs of groups on the environment at once, since the best was picked
    by the same scores: NaN for too few seeds, infinite where nothing can be said."""

    @property
    def clear(self) -> bool:
        """Whether the best is better, whatever was picked."""
        return bool(self.difference.low > 0)


def improvements(groups: Sequence[SeedGroup], most: int | None = None) -> list[Improvement]:
    """For each environment its best group by IQM beside each other one.

    Args:
        groups: All of them.
        most: Other ones to show, the next best ones; None for all. Intervals allow for all in any case.
    """
    found = []
    for env in dict.fromkeys(group.env for group in groups):
        here = [group for group in groups if group.env == env and len(group.scores)]
        here.sort(key=lambda group: -stats.iqm(group.scores))
        if len(here) < 2:
            continue
        best, bounds = here[0], stats.differences(*(group.scores for group in here))
        for i, other in enumerate(here[1:][:most], start=1):
            chance = float(stats.probability_of_improvement(best.scores, other.scores))
            difference = stats.Interval(*(float(part[0, i]) for part in bounds))
            found.append(Improvement(best, other, chance, difference))
    return found


def across(groups: Sequence[SeedGroup]) -> dict[str, list[stats.Interval]]:
    """IQM, median, mean and optimality gap over all environments, for each label that was run on all of them.

    Only win rates are on one scale, so there must be two environments with them, and as many scores on each.
    """
    rated = [group for group in groups if group.metric == "win_rate"]
    envs = {group.env for group in rated}
    found = {}
    for label in dict.fromkeys(group.label for group in rated):
        scores = [group.scores for group in rated if group.label == label]
        if len(envs) > 1 and len(scores) == len(envs) and len({len(each) for each in scores}) == 1 and len(scores[0]):
            matrix = np.stack(scores, axis=-1)
            statistics = (stats.iqm, stats.median, stats.mean, stats.optimality_gap)
            found[label] = [stats.interval(statistic, matrix, expand=True) for statistic in statistics]
    return found


def markdown(summaries: Sequence[Summary]) -> str:
    """The table as Markdown."""
    lines = [
        "| environment | algorithm | seeds | metric | IQM | 95 % interval | mean ± std | steps | steps/s |",
        "|---|---|--:|---|--:|:-:|--:|--:|--:|",
    ]
    for s in summaries:
        cells = [s.env, s.algorithm, str(s.seeds), METRICS[s.metric], number(s.iqm), between(s.low, s.high, s.iqm)]
        cells += [f"{number(s.mean)} ± {number(s.std, like=s.mean)}", short(s.timesteps), speed(s.steps_per_second)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def csv_table(summaries: Sequence[Summary]) -> str:
    """The table as CSV, all digits kept; what is not known is empty."""
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(Summary)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for summary in summaries:
        values = (getattr(summary, name) for name in names)
        writer.writerow(["" if isinstance(value, float) and not np.isfinite(value) else value for value in values])
    return text.getvalue()


def number(value: float, like: float | None = None) -> str:
    """For people: three decimals of what is small, fewer of what is large; as many as `like` would get if given."""
    if not np.isfinite(value):
        return "–"
    size = abs(value if like is None else like)
    return f"{value:.{3 if size < 10 else 1 if size < 1000 else 0}f}"


def speed(value: float) -> str:
    """Steps per second for people."""
    return f"{value:,.0f}" if np.isfinite(value) else "–"


def between(low: float, high: float, like: float) -> str:
    """An interval for people, with as many decimals as `like`; a dash where there is none."""
    return f"{number(low, like)} to {number(high, like)}" if np.isfinite(low) else "–"


def _summary(group: SeedGroup) -> Summary:
    scores, runs = group.scores, list(group.runs.values())
    found, spread = stats.Interval(np.nan, np.nan, np.nan), [np.nan] * 3
    if len(scores):
        found, spread = stats.interval(stats.iqm, scores, expand=True), [scores.mean(), scores.min(), scores.max()]
    iqm, low, high, mean, least, most = map(float, (*found, *spread))
    std = float(scores.std(ddof=1)) if len(scores) > 1 else float("nan")
    return Summary(
        env=group.env,
        algorithm=group.label,
        metric=group.metric,
        seeds=len(scores),
        iqm=iqm,
        low=low,
        high=high,
        mean=mean,
        std=std,
        min=least,
        max=most,
        timesteps=int(max(member.timesteps[-1:].sum() for member in group.members)),
        train_seconds=_mean_of(runs, "train_seconds"),
        steps_per_second=_mean_of(runs, "steps_per_second"),
    )


def _mean_of(runs: Sequence[dict[str, Any]], name: str) -> float:
    """NaN if a run.json does not tell it, or says null."""
    return float(np.mean(np.array([run.get(name) for run in runs], np.float64)))
