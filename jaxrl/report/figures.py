"""The pictures of a report: learning curves, performance profiles, effects of hyperparameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl import stats
from jaxrl.report.collect import SeedGroup, known
from jaxrl.train.folder.run_info import PLAN_FILES, read_checklist
from jaxrl.train.pictures import new_figure, short, verbatim

__all__ = ["Effect", "Search", "draw_curves", "draw_effects", "draw_profiles", "effects", "looks_of", "searches"]

# Okabe and Ito's colours, distinguishable with any colour vision, without their yellow.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_STYLES = ("-", "--", ":", "-.")  # once the colours are used up
_AXES = {"timesteps": "environment steps", "seconds": "seconds of training"}
_THRESHOLDS = 101
_SHOWN = 8  # how many of the best groups get a colour; others are grey
_BANDS = 4  # the most intervals that can be told apart where they overlap; of more, only the best group's is shown
_LABELS = 6  # the most values of a hyperparameter that each get a label on the axis
_LONG = 9  # characters beyond which labels are slanted
_HATCHES = ("////", "\\\\\\\\", "....", "||||")
_GREY = {"color": "#9aa5b1", "linestyle": "-"}


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
        metric = family[0].measure if family else ""
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


def draw_curves(groups: Sequence[SeedGroup]) -> Any:
    """A figure with a row per environment: curves over steps and over seconds, IQM bold, its interval, seeds faint.

    Dots are the IQM of the greedy evaluations.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    envs = list(dict.fromkeys(group.env for group in groups))
    looks = looks_of(groups)
    figure = new_figure("A report", 11.0, 3.7 * len(envs))
    rows = figure.subplots(len(envs), 2, squeeze=False, sharey="row")
    for env, row in zip(envs, rows, strict=True):
        here = [group for group in groups if group.env == env]
        for axes, axis in zip(row, _AXES, strict=True):
            banded = _banded(here, looks)
            for group in _ordered(here):
                _curve(axes, group, axis, looks.get(group.label), group.label in banded)
                if group.label in looks:
                    _dots(axes, group, axis, looks[group.label])
            axes.set_xlabel(_AXES[axis])
            axes.set_xlim(0, None)
            if here[0].metric == "win_rate":
                axes.set_ylim(-0.02, 1.02)
            _tidy(axes)
        row[0].set_ylabel(here[0].measure)
        row[0].xaxis.set_major_formatter(lambda steps, _: short(steps))
        row[0].set_title(verbatim(env), loc="left", fontsize=12, fontweight="bold")
        _legend(row[1])
        if not any(line.get_xdata().size for line in row[0].lines):
            _say(row, "no episode has ended")
    return figure


def draw_profiles(groups: Sequence[SeedGroup]) -> Any | None:
    """A figure with a panel per environment: the share of seeds whose final score exceeds each threshold.

    Groups with fewer than two scored seeds have no profile; None if there are no others.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    looks = looks_of(groups)
    groups = [group for group in groups if len(group.scores) > 1]
    envs = list(dict.fromkeys(group.env for group in groups))
    if not envs:
        return None
    wide = min(2, len(envs))
    high = -(-len(envs) // wide)
    figure = new_figure("A report", 11.0, 3.7 * high)
    panels = figure.subplots(high, wide, squeeze=False).ravel()
    for env, axes in zip(envs, panels, strict=False):
        here = [group for group in groups if group.env == env]
        thresholds, banded = _thresholds(here), _banded(here, looks)
        for group in _ordered(here):
            _profile(axes, group, thresholds, looks.get(group.label), group.label in banded)
        axes.set_xlabel(f"final {here[0].measure}, τ")
        axes.set_ylabel("share of seeds above τ")
        axes.set_ylim(-0.02, 1.02)
        axes.set_title(verbatim(env), loc="left", fontsize=12, fontweight="bold")
        _tidy(axes)
        _legend(axes)
    for axes in panels[len(envs) :]:
        axes.set_visible(False)
    return figure


def draw_effects(found: Sequence[Effect]) -> Any:
    """A figure with a panel per hyperparameter: seeds as dots, and the IQM of each configuration with its interval.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    wide = min(3, len(found))
    high = -(-len(found) // wide)
    figure = new_figure("A report", 11.0, 3.4 * high)
    panels = figure.subplots(high, wide, squeeze=False).ravel()
    for effect, axes in zip(found, panels, strict=False):
        _effect(axes, effect)
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    return figure


def _effect(axes: Any, effect: Effect) -> None:
    places = _places(axes, [value for value, _ in effect.points])
    color, crowded = _COLORS[0], len(effect.points) > 16
    for x, (_, scores) in zip(places, effect.points, strict=True):
        if len(scores) > 1:
            middle, low, high = stats.interval(stats.iqm, scores, expand=True)
            axes.plot([x, x], [low, high], color=color, linewidth=1.6, alpha=0.4 if crowded else 0.9)
            axes.plot(x, middle, "o", color=color, markersize=6, markeredgecolor="white", zorder=3)
            beside = {"textcoords": "offset points", "ha": "center", "va": "center", "color": _COLORS[1]}
            axes.update_datalim([(x, score) for score in scores])
            for score in scores:  # beside the interval, which would hide them
                axes.annotate("×", (x, score), (6, 0), annotation_clip=False, fontsize=7, **beside)
        else:
            axes.plot(x, scores[0], "o", color=color, markersize=5, alpha=0.7, markeredgewidth=0)
    axes.set_xlabel(effect.name)
    axes.set_ylabel(f"final {effect.metric}")
    axes.set_title(verbatim(effect.title), loc="left", fontsize=10, fontweight="bold")
    _tidy(axes)


def _places(axes: Any, values: Sequence[Any]) -> list[float]:
    """The positions of values on the axis: numbers on a linear or logarithmic scale, other values side by side."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        if min(values) > 0 and max(values) / min(values) >= 8:
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter("")  # of a range below a decade, matplotlib labels nearly all of them
        distinct = sorted(set(values))
        if len(distinct) <= _LABELS:
            _label(axes, distinct, [f"{value:.4g}" for value in distinct])
        return [float(value) for value in values]
    named = {str(value): value for value in values}
    try:
        names = sorted(named, key=named.__getitem__)
    except TypeError:  # None beside a number, for example, alone or in a list: they have no order
        names = list(named)
    _label(axes, range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    return [float(names.index(str(value))) for value in values]


def _label(axes: Any, places: Sequence[float], names: Sequence[str]) -> None:
    """Label these places on the axis and no others; long names, or close ones, are slanted so as not to overlap."""
    axes.set_xticks(places, list(map(verbatim, names)))
    axes.set_xticks([], minor=True)
    if max(map(len, names)) > _LONG or sum(map(len, names)) > 4 * _LONG or _close(axes, places):
        axes.tick_params(axis="x", rotation=30)
        for text in axes.get_xticklabels():
            text.set(horizontalalignment="right", rotation_mode="anchor")


def _close(axes: Any, places: Sequence[float]) -> bool:
    """True if two places are nearer to each other than a seventh of their range on the axis."""
    on_axis = np.log(places) if axes.get_xscale() == "log" else np.asarray(places, np.float64)
    return len(places) > 2 and np.diff(on_axis).min() < np.ptp(on_axis) / 7


def _ordered(groups: Sequence[SeedGroup]) -> list[SeedGroup]:
    """The groups by score, the worst first, so that the best are drawn above the others."""
    return sorted(groups, key=lambda group: stats.iqm(group.scores) if len(group.scores) else -np.inf)


def looks_of(groups: Sequence[SeedGroup]) -> dict[str, dict[str, Any]]:
    """Colour and line style by label, the same on every environment; only for the best of each if there are many."""
    labels = sorted({group.label for group in groups})
    if len(labels) > _SHOWN:
        best = (_ordered([g for g in groups if g.env == env])[-_SHOWN:] for env in {g.env for g in groups})
        labels = sorted({group.label for some in best for group in some})
    count = len(_COLORS)
    return {
        label: {"color": _COLORS[i % count], "linestyle": _STYLES[i // count % len(_STYLES)]}
        for i, label in enumerate(labels)
    }


def _banded(groups: Sequence[SeedGroup], looks: dict[str, dict[str, Any]]) -> set[str]:
    """The labels of the groups whose intervals are shown: all of a few, the best of many."""
    colored = [group.label for group in _ordered(groups) if group.label in looks]
    return set(colored if len(colored) <= _BANDS else colored[-1:])


def _say(row: Sequence[Any], sentence: str) -> None:
    """Write a sentence into panels that show nothing, instead of the numbers of their axes."""
    for axes in row:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, sentence, transform=axes.transAxes, ha="center", va="center", color=_GREY["color"])


def _curve(axes: Any, group: SeedGroup, axis: str, look: dict[str, Any] | None, band: bool) -> None:
    members = len(group.members)
    if look is None:
        for member in group.members:
            axes.plot(*known(member, axis), linewidth=0.6, alpha=0.25, **_GREY)
        return
    if members > 1:  # the more there are, the fainter
        for member in group.members:
            x, y = known(member, axis)
            axes.plot(x, y, color=look["color"], alpha=max(0.08, 0.35 / members**0.35), linewidth=0.7)
    found = group.curve(axis)
    if found is None:
        return
    x, (middle, low, high) = found
    name = verbatim(f"{group.label}, {members} seed{'s' * (members > 1)}")
    if len(x) == 1:
        axes.plot(x, middle, "o", label=name, **look)
        return
    axes.plot(x, middle, linewidth=2.2, label=name, **look)
    if band:
        axes.fill_between(x, low, high, color=look["color"], alpha=0.18, linewidth=0)


def _dots(axes: Any, group: SeedGroup, axis: str, look: dict[str, Any]) -> None:
    """The IQM of the greedy evaluations that all members have had at the same step."""
    steps, where, values = (
        np.concatenate([member.played.get(name, np.zeros(0)) for member in group.members])
        for name in ("timesteps", axis, "values")
    )
    counts = {step: np.sum(steps == step) for step in np.unique(steps[np.isfinite(values)])}
    here = [steps == step for step, count in counts.items() if count == len(group.members)]
    if here:
        x, y = [where[at].mean() for at in here], [stats.iqm(values[at]) for at in here]
        axes.plot(x, y, "o", color=look["color"], markersize=6, markeredgecolor="white", zorder=3, clip_on=False)


def _profile(axes: Any, group: SeedGroup, thresholds: np.ndarray, look: dict[str, Any] | None, band: bool) -> None:
    if look is None:
        share = stats.performance_profile(group.scores, thresholds)
        axes.plot(thresholds, share, linewidth=0.6, alpha=0.35, drawstyle="steps-post", **_GREY)
        return
    share, low, high = stats.interval(stats.mean, stats.exceeds(group.scores, thresholds), expand=True)
    axes.plot(thresholds, share, linewidth=2.2, drawstyle="steps-post", label=verbatim(group.label), **look)
    if band and len(group.scores) >= stats.MIN_COVERED:  # hatched, each in its own way, as they overlap
        hatch = _HATCHES[len(axes.collections) % len(_HATCHES)]
        name = verbatim(f"{group.label}, 95 % interval")
        face, edge = ((look["color"], alpha) for alpha in (0.08, 0.5))
        fill = {"facecolor": face, "edgecolor": edge, "hatch": hatch, "linewidth": 0.8}
        axes.fill_between(thresholds, low, high, step="post", label=name, **fill)


def _thresholds(groups: Sequence[SeedGroup]) -> np.ndarray:
    """Thresholds from below the lowest score to above the highest; for win rates from 0 to 1."""
    if groups[0].metric == "win_rate":
        return np.linspace(0.0, 1.0, _THRESHOLDS)
    scores = np.concatenate([group.scores for group in groups])
    margin = 0.05 * np.ptp(scores) or 1.0
    return np.linspace(scores.min() - margin, scores.max() + margin, _THRESHOLDS)


def _tidy(axes: Any) -> None:
    axes.grid(alpha=0.25, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(axes: Any) -> None:
    """Add a legend, the best first, if there is anything to explain: a run may have no row, or no score."""
    lines, labels = axes.get_legend_handles_labels()
    beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(lines) > 4 else {"loc": "best"}
    if lines:
        axes.legend(lines[::-1], labels[::-1], frameon=False, fontsize=9, **beside)
