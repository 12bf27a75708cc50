"""curve.png: how a run went, over environment steps and over seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.train.metrics import columns

__all__ = ["MissingExtraError", "new_figure", "save_curve", "short", "smooth"]


class MissingExtraError(ImportError):
    """An optional package is not installed; the message has the line that installs it."""


def save_curve(
    path: str | Path, rows: list[dict[str, Any]], evaluations: list[dict[str, Any]], title: str = ""
) -> None:
    """Draw the win rate (the return where there is none) over steps and over seconds; nothing without rows.

    Args:
        path: The picture, e.g. `curve.png`.
        rows: As in metrics.jsonl.
        evaluations: As in evaluations.jsonl; drawn as dots.
        title: Above the picture.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure("curve.png", 9.6, 3.8)
    if not rows:
        return
    table, played = columns(rows), columns(evaluations)
    won = "win_rate" in table
    name, label = ("win_rate", "win rate") if won else ("return_mean", "return")
    for axes, x, x_label in zip(
        figure.subplots(1, 2, sharey=True),
        ("timesteps", "seconds"),
        ("environment steps", "seconds of training"),
        strict=True,
    ):
        _lines(axes, table[x], table[name])
        if played and name in played:
            _dots(axes, played[x], played[name])
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
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    figure.savefig(path, dpi=120)


def new_figure(name: str, width: float, height: float) -> Any:
    """An empty matplotlib figure of so many inches, which no window belongs to.

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


_BLUE, _ORANGE = "#1f5fa8", "#e8762c"


def _lines(axes: Any, x: np.ndarray, y: np.ndarray) -> None:
    """The training curve: thin as measured, bold smoothed; with members `[R, M]` a thin line each, their mean bold."""
    members = y.reshape(len(y), -1)
    multiple = members.shape[1] > 1
    for member in members.T:
        axes.plot(x, smooth(member) if multiple else member, color=_BLUE, alpha=0.3, linewidth=1)
    middle = np.stack([smooth(member) for member in members.T]).mean(0)
    axes.plot(
        x, middle, color=_BLUE, linewidth=2.2, label=f"training, mean of {members.shape[1]}" if multiple else "training"
    )


def _dots(axes: Any, x: np.ndarray, y: np.ndarray) -> None:
    """Greedy evaluations."""
    for i, member in enumerate(y.reshape(len(y), -1).T):
        label = "greedy evaluation" if i == 0 else None
        axes.plot(
            x, member, "o", color=_ORANGE, markersize=6, markeredgecolor="white", label=label, zorder=3, clip_on=False
        )


def smooth(y: np.ndarray) -> np.ndarray:
    """A centred running mean over a twenty-fifth of the curve; intervals without an episode (NaN) do not count."""
    half = max(len(y) // 50, 1)
    known = np.isfinite(y)
    total, count = np.cumsum([0.0, *np.where(known, y, 0.0)]), np.cumsum([0, *known])
    index = np.arange(len(y))
    low, high = np.maximum(index - half, 0), np.minimum(index + half + 1, len(y))
    number = count[high] - count[low]
    return np.where(number > 0, (total[high] - total[low]) / np.maximum(number, 1), np.nan)


def short(steps: float) -> str:
    """A number of steps for people: `2.5M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if steps >= size:
            return f"{steps / size:.3g}{unit}"
    return f"{steps:.0f}"
