"""curve.png: the progress of a run, over environment steps and over seconds."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.display import in_units
from jaxrl.errors import MissingExtraError
from jaxrl.train.metrics import columns

__all__ = ["new_figure", "save_curve", "short", "smooth", "verbatim"]


def save_curve(
    path: str | Path, rows: list[dict[str, Any]], evaluations: list[dict[str, Any]], title: str = ""
) -> None:
    """Draw the win rate (or the return, if there is none) over steps and over seconds; without rows, do nothing.

    If there are several kinds of agents with separate returns, each kind gets its own line.

    Args:
        path: The picture, e.g. `curve.png`.
        rows: As in metrics.jsonl.
        evaluations: As in evaluations.jsonl; drawn as dots.
        title: The title above the picture.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure("curve.png", 9.6, 3.8)
    if not rows:
        return
    table, played = columns(rows), columns(evaluations)
    won = "win_rate" in table
    if not won:  # the untrained policy may score so badly that the rest of the curve would look flat
        played = columns([row for row in evaluations if row["timesteps"]])
    names, label = (["win_rate"], "win rate") if won else (_returns(table), "return")
    for axes, x, x_label in zip(
        figure.subplots(1, 2, sharey=True),
        ("timesteps", "seconds"),
        ("environment steps", "seconds of training"),
        strict=True,
    ):
        for name, color in zip(names, itertools.cycle(_COLORS), strict=False):
            kind = name.partition("/")[2]
            _lines(axes, table[x], table[name], color, kind or "training")
            if played and name in played:
                label_once = "greedy evaluation" if name == names[-1] else None
                _dots(axes, played[x], played[name], color if kind else _DOT, label_once)
        axes.set_xlabel(x_label)
        axes.set_xlim(0, None)
        axes.grid(alpha=0.25, linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        if won:
            axes.set_ylim(-0.02, 1.02)
    left, right = figure.axes
    left.set_ylabel(label)
    left.xaxis.set_major_formatter(lambda steps, _: short(steps))
    right.legend(loc="lower right" if won else "best", frameon=False)
    figure.suptitle(verbatim(title), x=0.01, ha="left", fontsize=12)
    figure.savefig(path, dpi=120)


def new_figure(name: str, width: float, height: float) -> Any:
    """An empty matplotlib figure, `width` by `height` inches, without a window.

    Raises:
        MissingExtraError: matplotlib is not installed; the message says that `name` needs it.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(f"{name} needs matplotlib: pip install 'jaxrl[viz]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


# Distinguishable with any colour vision.
_COLORS = ("#1f5fa8", "#b5651d", "#2a8c68", "#8a5aa8")
_DOT = "#e8762c"


def _returns(table: dict[str, np.ndarray]) -> list[str]:
    """The columns with mean returns: one for each kind of agent, if there are several."""
    return [name for name in table if name.startswith("returns/")] or ["return_mean"]


def _lines(axes: Any, x: np.ndarray, y: np.ndarray, color: str, label: str) -> None:
    """The training curve: a thin raw line and a bold smooth one; with members `[R, M]`, thin lines and a bold mean."""
    members = y.reshape(len(y), -1)
    multiple = members.shape[1] > 1
    for member in members.T:
        axes.plot(x, smooth(member) if multiple else member, color=color, alpha=0.3, linewidth=1)
    middle = np.stack([smooth(member) for member in members.T]).mean(0)
    label = f"{label}, mean of {members.shape[1]}" if multiple else label
    axes.plot(x, middle, color=color, linewidth=2.2, label=label)


def _dots(axes: Any, x: np.ndarray, y: np.ndarray, color: str, label: str | None) -> None:
    """Draw the greedy evaluations as dots."""
    look = {"color": color, "markersize": 6, "markeredgecolor": "white", "zorder": 3, "clip_on": False}
    for i, member in enumerate(y.reshape(len(y), -1).T):
        axes.plot(x, member, "o", label=label if i == 0 else None, **look)


def smooth(y: np.ndarray) -> np.ndarray:
    """A centred running mean over a twenty-fifth of the curve; intervals without an episode (NaN) are ignored."""
    half = max(len(y) // 50, 1)
    known = np.isfinite(y)
    total, count = np.cumsum([0.0, *np.where(known, y, 0.0)]), np.cumsum([0, *known])
    index = np.arange(len(y))
    low, high = np.maximum(index - half, 0), np.minimum(index + half + 1, len(y))
    number = count[high] - count[low]
    return np.where(number > 0, (total[high] - total[low]) / np.maximum(number, 1), np.nan)


def verbatim(text: str) -> str:
    """A text that matplotlib shows as it is.

    It sees formulas in dollar signs, and its legends leave out what begins with an underscore: names of files may.
    """
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def short(steps: float) -> str:
    """A number of steps in short form, such as `2.5M`."""
    return in_units(round(steps), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)).replace(" ", "")
