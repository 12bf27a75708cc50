"""The numbers of a report: final scores with intervals, as Markdown and as CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl import stats
from jaxrl.display import spreadsheet_cell
from jaxrl.errors import printable
from jaxrl.report.collect import METRICS, SeedGroup
from jaxrl.train.pictures import short

__all__ = [
    "COLUMNS",
    "Improvement",
    "Summary",
    "across",
    "as_row",
    "between",
    "csv_table",
    "improvements",
    "latex",
    "markdown",
    "markdown_row",
    "number",
    "summarise",
]

COLUMNS = ("environment", "algorithm", "seeds", "metric", "IQM", "interval", "mean ± std", "steps", "steps/s")
_IN_LATEX = {ord(c): f"\\{c}" for c in "&%$#_{}"} | {
    ord(c): text
    for c, text in zip("\\~^±–", (r"\textbackslash{}", r"\textasciitilde{}", r"\^{}", r"$\pm$", "--"), strict=True)
}


@dataclasses.dataclass(frozen=True)
class Summary:
    """The final greedy evaluations of a group: one line of the table."""

    env: str
    algorithm: str
    """The group's label."""
    metric: str
    seeds: int
    """The number of seeds with a score."""
    iqm: float
    low: float
    """The lower end of the 95 % stratified bootstrap interval, expanded for few seeds. Two to four are too few for
    that and have their range; NaN for one."""
    high: float
    mean: float
    std: float
    """The sample standard deviation: the squares are divided by the number of seeds minus one."""
    min: float
    max: float
    timesteps: int
    """Environment steps of one seed, the maximum over seeds."""
    train_seconds: float
    """The mean over runs."""
    steps_per_second: float
    """Steps per second of all seeds of a run together, the mean over runs."""


def summarise(groups: Sequence[SeedGroup]) -> list[Summary]:
    """A `Summary` for each group; its scores are NaN if no seed has one."""
    return [_summary(group) for group in groups]


class Improvement(NamedTuple):
    """The best group on an environment compared with another one."""

    best: SeedGroup
    other: SeedGroup
    chance: float
    """The probability that a run of the best group beats a run of the other."""
    difference: stats.Interval
    """The difference of the mean scores. The bounds hold for all pairs of groups on the environment at once, because
    the same scores picked the best: NaN for too few seeds, infinite if nothing can be concluded."""

    @property
    def equal(self) -> bool:
        """True if both have the same IQM, so that none is the best."""
        return bool(stats.iqm(self.best.scores) == stats.iqm(self.other.scores))

    @property
    def clear(self) -> bool:
        """True if the best is clearly better, allowing for having been picked."""
        return bool(self.difference.low > 0)


def improvements(groups: Sequence[SeedGroup], most: int | None = None) -> list[Improvement]:
    """The best group on each environment by IQM, compared with each other one.

    Args:
        groups: All groups; exploiters of leagues are left out, as their scores are of another task.
        most: How many of the next best groups to show; None for all. Intervals always account for all groups.
    """
    found = []
    for env in dict.fromkeys(group.env for group in groups):
        here = [group for group in groups if group.env == env and len(group.scores) and not group.exploits]
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
    """IQM, median, mean and optimality gap over all environments, for each label that ran on all of them.

    Only win rates share a scale, so there must be at least two environments with them, and as many scores on each.
    Fewer than five seeds have estimates without bounds: there, too few resamples differ for 95 %.
    """
    rated = [group for group in groups if group.metric == "win_rate"]
    envs = {group.env for group in rated}
    found = {}
    for label in dict.fromkeys(group.label for group in rated):
        own = [group for group in rated if group.label == label]
        scores = [group.scores for group in own]
        everywhere = len(envs) > 1 and len(scores) == len(envs) == len({group.env for group in own})
        if everywhere and len({len(each) for each in scores}) == 1 and len(scores[0]):
            matrix = np.stack(scores, axis=-1)
            statistics = (stats.iqm, stats.median, stats.mean, stats.optimality_gap)
            known = [stats.interval(statistic, matrix, expand=True) for statistic in statistics]
            few = len(matrix) < stats.MIN_COVERED
            found[label] = [each._replace(low=np.nan, high=np.nan) if few else each for each in known]
    return found


def markdown(summaries: Sequence[Summary]) -> str:
    """The table as Markdown."""
    lines = [COLUMNS, ("---", "---", "--:", "---", "--:", ":-:", "--:", "--:", "--:"), *map(as_row, summaries)]
    return "".join(f"{markdown_row(cells)}\n" for cells in lines)


def latex(summaries: Sequence[Summary]) -> str:
    """The table as LaTeX, for the package booktabs."""
    lines = (COLUMNS, *map(as_row, summaries))
    head, *rows = (" & ".join(printable(cell).translate(_IN_LATEX) for cell in row) for row in lines)
    body = "".join(rf"{row} \\" + "\n" for row in rows)
    rules = r"\begin{tabular}{llrlrcrrr}", r"\toprule", rf"{head} \\", r"\midrule"
    return "\n".join(rules) + f"\n{body}" + "\\bottomrule\n\\end{tabular}\n"


def markdown_row(cells: Sequence[str]) -> str:
    """A line of a Markdown table, whatever is in the cells."""
    return "| " + " | ".join(printable(cell).replace("|", "\\|") for cell in cells) + " |"


def csv_table(summaries: Sequence[Summary]) -> str:
    """The table as CSV with all digits; unknown values are empty."""
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(Summary)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for summary in summaries:
        values = (spreadsheet_cell(getattr(summary, name)) for name in names)
        writer.writerow(["" if isinstance(value, float) and not np.isfinite(value) else value for value in values])
    return text.getvalue()


def number(value: float, like: float | None = None) -> str:
    """A number as text: three decimals if it is small, fewer if it is large; as many as for `like` if given."""
    if not np.isfinite(value):
        return "–"
    size = abs(value if like is None else like)
    return f"{value:.{3 if size < 10 else 1 if size < 1000 else 0}f}"


def between(low: float, high: float, like: float) -> str:
    """An interval as text, with as many decimals as `like`; a dash if there is none."""
    return f"{number(low, like)} to {number(high, like)}" if np.isfinite(low) else "–"


def _bounds(summary: Summary) -> str:
    """The interval as text, and its kind: too few seeds for 95 % have their range."""
    kind = "" if summary.seeds < 2 else " (range)" if summary.seeds < stats.MIN_COVERED else " (95 %)"
    return between(summary.low, summary.high, summary.iqm) + kind


def as_row(s: Summary) -> tuple[str, ...]:
    """The cells of a summary, under `COLUMNS`."""
    first = (s.env, s.algorithm, str(s.seeds), METRICS.get(s.metric, s.metric), number(s.iqm), _bounds(s))
    speed = f"{s.steps_per_second:,.0f}" if np.isfinite(s.steps_per_second) else "–"
    return (*first, f"{number(s.mean)} ± {number(s.std, like=s.mean)}", short(s.timesteps), speed)


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
    """The mean over runs; NaN if a run.json lacks the value or has null."""
    return float(np.mean(np.array([run.get(name) for run in runs], np.float64)))
