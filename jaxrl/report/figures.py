"""The pictures of a report: learning curves and performance profiles, a colour for each label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrl import stats
from jaxrl.report.groups import METRICS, Group, known
from jaxrl.train.curve import new_figure, short

__all__ = ["draw_curves", "draw_profiles"]

# Okabe and Ito's colours, told apart with any colour vision, without their yellow.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_STYLES = ("-", "--", ":", "-.")  # once the colours are used up
_AXES = {"timesteps": "environment steps", "seconds": "seconds of training"}
_THRESHOLDS = 101


def draw_curves(groups: Sequence[Group]) -> Any:
    """A figure with a row for each environment: over steps and over seconds, IQM bold, its interval, seeds faint.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    envs = list(dict.fromkeys(group.env for group in groups))
    looks = _looks(groups)
    figure = new_figure("A report", 11.0, 3.7 * len(envs))
    rows = figure.subplots(len(envs), 2, squeeze=False, sharey="row")
    for env, row in zip(envs, rows, strict=True):
        here = [group for group in groups if group.env == env]
        for axes, axis in zip(row, _AXES, strict=True):
            for group in here:
                _curve(axes, group, axis, looks[group.label])
            axes.set_xlabel(_AXES[axis])
            axes.set_xlim(0, None)
            if here[0].metric == "win_rate":
                axes.set_ylim(-0.02, 1.02)
            _tidy(axes)
        row[0].set_ylabel(f"{METRICS[here[0].metric]} while training")
        row[0].xaxis.set_major_formatter(lambda steps, _: short(steps))
        row[0].set_title(env, loc="left", fontsize=12, fontweight="bold")
        _legend(row[1])
    return figure


def draw_profiles(groups: Sequence[Group]) -> Any:
    """A figure with a panel for each environment: the share of seeds whose final score exceeds each threshold.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    envs = list(dict.fromkeys(group.env for group in groups))
    looks = _looks(groups)
    wide = 2
    high = -(-len(envs) // wide)
    figure = new_figure("A report", 11.0, 3.7 * high)
    panels = figure.subplots(high, wide, squeeze=False).ravel()
    for env, axes in zip(envs, panels, strict=False):
        here = [group for group in groups if group.env == env]
        thresholds = _thresholds(here)
        for group in here:
            _profile(axes, group, thresholds, looks[group.label])
        axes.set_xlabel(f"final {METRICS[here[0].metric]}, τ")
        axes.set_ylabel("share of seeds above τ")
        axes.set_ylim(-0.02, 1.02)
        axes.set_title(env, loc="left", fontsize=12, fontweight="bold")
        _tidy(axes)
        _legend(axes)
    for axes in panels[len(envs) :]:
        axes.set_visible(False)
    return figure


def _looks(groups: Sequence[Group]) -> dict[str, dict[str, Any]]:
    """Colour and line style by label, the same on every environment."""
    labels = sorted({group.label for group in groups})
    count = len(_COLORS)
    return {
        label: {"color": _COLORS[i % count], "linestyle": _STYLES[i // count % len(_STYLES)]}
        for i, label in enumerate(labels)
    }


def _curve(axes: Any, group: Group, axis: str, look: dict[str, Any]) -> None:
    members = len(group.members)
    if members > 1:  # the more there are, the fainter
        for member in group.members:
            x, y = known(member, axis)
            axes.plot(x, y, color=look["color"], alpha=max(0.08, 0.35 / members**0.35), linewidth=0.7)
    found = group.curve(axis)
    if found is None:
        return
    x, (middle, low, high) = found
    name = f"{group.label}, {members} seed{'s' * (members > 1)}"
    if len(x) == 1:
        axes.plot(x, middle, "o", label=name, **look)
        return
    axes.plot(x, middle, linewidth=2.2, label=name, **look)
    axes.fill_between(x, low, high, color=look["color"], alpha=0.18, linewidth=0)


def _profile(axes: Any, group: Group, thresholds: np.ndarray, look: dict[str, Any]) -> None:
    if len(group.scores) == 0:
        return
    share, low, high = stats.interval(stats.mean, stats.exceeds(group.scores, thresholds), expand=True)
    axes.plot(thresholds, share, linewidth=2.2, drawstyle="steps-post", label=group.label, **look)
    axes.fill_between(thresholds, low, high, color=look["color"], alpha=0.15, linewidth=0, step="post")


def _thresholds(groups: Sequence[Group]) -> np.ndarray:
    """From below the lowest score to above the highest; for win rates from 0 to 1."""
    if groups[0].metric == "win_rate":
        return np.linspace(0.0, 1.0, _THRESHOLDS)
    scores = np.concatenate([group.scores for group in groups])
    if len(scores) == 0:
        return np.linspace(0.0, 1.0, _THRESHOLDS)
    margin = 0.05 * np.ptp(scores) or 1.0
    return np.linspace(scores.min() - margin, scores.max() + margin, _THRESHOLDS)


def _tidy(axes: Any) -> None:
    axes.grid(alpha=0.25, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(axes: Any) -> None:
    """A legend if there is anything to explain: a run may have no row, or no score."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", frameon=False, fontsize=9)
